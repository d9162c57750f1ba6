"""Changes become current rows: the relational stage behind the snapshot tables.

DataFrames go in and come out; nothing is read, written or collected here. Everything works on a classic session and on Spark
Connect alike.

A change is seen from the keys it touches: it *takes* a key (insert, update, full-load read) or *leaves* one (delete, and the
old key of an update that moves its row). The last operation on a key decides whether the row lives and what it holds.

Order is by source position, then by row number within one event. One event's rows may be cut over Kafka partitions by key, each
piece counting from zero; rows of different pieces touch the same key only where an update moves rows, and there a key is always
left before it is taken again, so taking wins.

A key is its values in the table's types, and the source's text of each value that does not fit its type, which is null otherwise:
two zero dates are one key, and two dates of no calendar are two.

A truncation (TRUNCATE, DROP TABLE) touches no key of its own: no change at or before the last one counts any more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dts_assets.model.columns import Column, quoted
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.change_columns import SHOWN
from tests.oracles.absent_columns import MOVE, folded, is_absent, some

_POSITION = {"lineage": "int", "file": "bigint", "position": "bigint"}
TRUNCATE = "truncate"
"""The operation of a change that empties the table: it has no image."""


def held(frontier: Frontier) -> SparkColumn:
    """Return the condition on changelog rows that a frontier holds them: the relational ``Frontier.holds``."""
    if frontier.window is None:
        return F.lit(False)
    inside = F.col("window_start") <= F.lit(frontier.window)
    early = F.lit(False) if frontier.cut is None else at_or_before(frontier.cut)
    whole = F.lit(False) if frontier.whole_until is None else F.col("window_start") <= F.lit(frontier.whole_until)
    return inside & (whole | early)


def in_windows(starts: Sequence[datetime], known: Collection[datetime]) -> SparkColumn:
    """Return the condition on changelog rows that they are of some windows.

    Where no other of the ``known`` windows lies between them it is a stretch of time: a list of a thousand instants, which
    Iceberg holds against every file, doubled the time of reading a thousand files.
    """
    if not starts:
        return F.lit(False)
    first, last, chosen = min(starts), max(starts), set(starts)
    if all(start in chosen for start in known if first <= start <= last):
        return F.col("window_start").between(F.lit(first), F.lit(last))
    return F.col("window_start").isin(*starts)


def at_or_before(position: SourcePosition) -> SparkColumn:
    """Return the condition on changelog rows that they stand at or before a position."""
    return _position() <= _literal(position)


def with_images_of(changes: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Give the images of changelog rows a field for each of ``columns``.

    A changelog state may be older than a column, or than the spelling of its name.
    """
    for image in ("before", "after"):
        fields = set(changes.schema[image].dataType.fieldNames())  # type: ignore[attr-defined]
        if any(column.name not in fields for column in columns):
            there = [next((name for name in column.lake_names if name in fields), None) for column in columns]
            row = F.struct(
                *[
                    (F.lit(None) if name is None else F.col(image)[name]).cast(column.type).alias(column.name)
                    for column, name in zip(columns, there, strict=True)
                ]
            )
            changes = changes.withColumn(image, F.when(F.col(image).isNotNull(), row))
    return changes


def after_truncation(changes: DataFrame) -> DataFrame:
    """Return the changes later than the last truncation among them, by source position.

    Give it what a frontier holds, and no less: a truncation behind the frontier has emptied nothing yet, and one left out
    lets rows that it removed come back.
    """
    last = changes.where(F.col("op") == TRUNCATE).agg(F.max(_position()).alias("__emptied_at"))
    later = F.col("__emptied_at").isNull() | (_position() > F.col("__emptied_at"))
    return changes.crossJoin(F.broadcast(last)).where(later).drop("__emptied_at")


def whole_snapshot(
    changes: DataFrame,
    columns: Sequence[Column],
    *,
    names: Sequence[str],
    fold_absent: bool = False,
    follow_moves: bool = False,
) -> DataFrame:
    """Return all rows of a snapshot from all changes that its frontier holds.

    They replace the rows of a table that was emptied.

    The columns are ``names`` (the snapshot's names of ``columns``) and what the snapshot shows of a row's last change.
    ``fold_absent`` says that some change lacks columns, ``follow_moves`` that some of these moves its row.
    """
    operations = key_operations(after_truncation(changes), columns)
    last = folded(operations, columns, follow_moves=follow_moves) if fold_absent else latest(operations)
    rows = merge_source(last, columns, names=names).where(f"{helper_prefix(names)}takes")
    return rows.select(*[quoted(name) for name in names], *SHOWN, "_invalid")


def key_operations(changes: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return one row per key that a change touches.

    The columns are ``key`` (struct: its values, and ``unfit``, their texts where some do not fit), ``takes``, ``at`` (position
    struct), ``kafka_partition``, ``row_number``, ``row`` (struct of the table's columns; null where the key is left),
    ``unfit`` (the text of each of the row's values that does not fit), ``absent``, ``begins`` (a row of its own begins: an insert
    or a read), ``move`` (what tells an update that moves its row and lacks columns from all others; null for other changes), and
    the columns that the snapshot shows of the change (``_event_time``, ``_kafka_partition``, ``_kafka_offset``).

    A server with minimal row images does not send the key of an updated row that kept it: it is the old image's.
    Truncations touch no key of their own; see :func:`after_truncation`.
    """
    changes = changes.where(F.col("op") != TRUNCATE)
    before, after, moved = _keys_of(columns)
    taken = F.struct(F.lit(True).alias("takes"), after.alias("key"))
    left = F.struct(F.lit(False).alias("takes"), before.alias("key"))
    touched = F.when(F.col("op") == "delete", F.array(left)).when(moved, F.array(left, taken)).otherwise(F.array(taken))
    return changes.select("*", F.explode(touched).alias("touch")).select(
        F.col("touch.key").alias("key"),
        F.col("touch.takes").alias("takes"),
        _position().alias("at"),
        "kafka_partition",
        "row_number",
        F.when(F.col("touch.takes"), F.col("after")).alias("row"),
        F.when(F.col("touch.takes"), some([_text(column) for column in columns])).alias("unfit"),
        "absent",
        F.col("op").isin("insert", "read").alias("begins"),
        F.when(moved & _lacks_columns(), _move_id(before, after)).alias("move"),
        *[F.col(name).alias(shown) for shown, name in SHOWN.items()],
    )


def partial_moves(changes: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return the keys that updates which lack columns move rows between: ``left`` and ``taken``."""
    before, after, moved = _keys_of(columns)
    partial = changes.where(moved & _lacks_columns())
    return partial.select(before.alias("left"), after.alias("taken")).distinct()


def latest(operations: DataFrame) -> DataFrame:
    """Return the last operation on every key, with the columns of :func:`key_operations`."""
    facts = F.struct("takes", "row", "unfit", "absent", *SHOWN)
    in_piece = operations.groupBy("key", "at", "kafka_partition").agg(
        F.max_by(facts, F.struct("row_number", "takes")).alias("facts")
    )
    per_key = in_piece.groupBy("key").agg(F.max_by("facts", F.struct("at", F.col("facts.takes"))).alias("facts"))
    return per_key.select("key", "facts.*")


def as_operations(snapshot: DataFrame, columns: Sequence[Column], *, names: Sequence[str]) -> DataFrame:
    """Return current rows as operations older than any change, for absent columns.

    ``names`` are the snapshot's names of ``columns``, in the same order.
    """
    row = F.struct(*[F.col(quoted(name)).alias(column.name) for name, column in zip(names, columns, strict=True)])
    texts = {column.name: F.col("_invalid")[name] for name, column in zip(names, columns, strict=True)}
    keys = [F.col("row")[column.name].alias(f"k{n}") for n, column in enumerate(_keys(columns))]
    unfit = some([texts[column.name] for column in _keys(columns)])
    return snapshot.select(row.alias("row"), "_invalid", *SHOWN).select(
        F.struct(*keys, unfit.alias("unfit")).alias("key"),
        F.lit(True).alias("takes"),
        _literal(SourcePosition(-1, 0, 0)).alias("at"),
        F.col("_kafka_partition").alias("kafka_partition"),
        F.lit(0).alias("row_number"),
        "row",
        some(list(texts.values())).alias("unfit"),
        F.array().cast("array<string>").alias("absent"),
        F.lit(True).alias("begins"),
        F.lit(None).cast(MOVE).alias("move"),
        *SHOWN,
    )


def merge_source(result: DataFrame, columns: Sequence[Column], *, names: Sequence[str]) -> DataFrame:
    """Return the rows that are merged into a snapshot table.

    Their columns have the snapshot's names, the key is ``__key_n`` and ``__unfit``, beside ``__takes``, with
    :func:`helper_prefix` for ``__``.

    Key columns come from the key, since the row's image may lack them.
    """
    helper = helper_prefix(names)
    places = {column.name: n for n, column in enumerate(_keys(columns))}
    keys = [F.col("key")[f"k{n}"].alias(f"{helper}key_{n}") for n in places.values()]
    values = [
        (
            F.when(F.col("takes"), F.col("key")[f"k{places[column.name]}"])
            if column.is_key
            else F.col("row")[column.name]
        ).alias(name)
        for column, name in zip(columns, names, strict=True)
    ]
    texts = [
        F.col("key.unfit")[places[column.name]] if column.is_key else F.col("unfit")[number]
        for number, column in enumerate(columns)
    ]
    named = F.map_from_arrays(F.array(*map(F.lit, names)), F.array(*texts))
    invalid = F.when(F.coalesce(*texts).isNotNull(), F.map_filter(named, lambda _, text: text.isNotNull()))
    beside = [F.col("key.unfit").alias(f"{helper}unfit"), F.col("takes").alias(f"{helper}takes")]
    return result.select(*keys, *beside, *values, *SHOWN, invalid.alias("_invalid"))


def helper_prefix(names: Sequence[str]) -> str:
    """Return the prefix of helping columns beside columns with these names.

    It is ``__``, or longer if a name begins so.
    """
    prefix = "__"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def same_row(keys: Sequence[Sequence[str]], *, unfit: bool, helper: str) -> str:
    """Return the condition, in SQL, that the rows ``target`` and ``source`` of a merge have one key.

    ``keys`` are the snapshot's names of each key column, the present one first: older rows have texts under former ones.
    ``unfit`` says that some value of a key may not fit; where none does, a plain comparison is quicker. ``helper`` is the prefix
    of the helping columns.
    """
    equal = "<=>" if unfit else "="
    parts = [f"target.{quoted(key[0])} {equal} source.{helper}key_{number}" for number, key in enumerate(keys)]
    if unfit:
        texts = [", ".join(f"target._invalid[{_literal_text(name)}]" for name in key) for key in keys]
        parts += [f"coalesce({text}) <=> source.{helper}unfit[{n}]" for n, text in enumerate(texts)]
    return " AND ".join(parts)


def _keys(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if column.is_key]


def _keys_of(columns: Sequence[Column]) -> tuple[SparkColumn, SparkColumn, SparkColumn]:
    """Return the keys of both images, and whether the change is an update that moves its row."""
    before, after = _key_of(columns, "before", "after"), _key_of(columns, "after", "before")
    return before, after, (F.col("op") == "update") & F.col("before").isNotNull() & ~before.eqNullSafe(after)


def _move_id(before: SparkColumn, after: SparkColumn) -> SparkColumn:
    """Return the numbers of a move: its place, and its keys.

    A source may give two changes one place.
    """
    place = [_position()[name] for name in _POSITION]
    numbers = [part.cast("bigint") for part in (*place, F.col("kafka_partition"), F.col("row_number"))]
    return F.array(*numbers, F.xxhash64(before), F.xxhash64(after))


def _lacks_columns() -> SparkColumn:
    return F.coalesce(F.exists("absent", lambda name: name.startswith("after.")), F.lit(False))


def _key_of(columns: Sequence[Column], image: str, other: str) -> SparkColumn:
    """Return the key of an image, with the value of the ``other`` image where none was sent.

    Canal's old image has changed columns only. Fields are numbered: two images must have one type.
    """
    fields = [
        F.when(is_absent(column, image), F.col(other)[column.name]).otherwise(F.col(image)[column.name])
        for column in _keys(columns)
    ]
    unfit = some([_text(column, image, other) for column in _keys(columns)])
    return F.struct(*[field.alias(f"k{n}") for n, field in enumerate(fields)], unfit.alias("unfit"))


def _text(column: Column, image: str = "after", other: str | None = None) -> SparkColumn:
    """Return the source's text of a value that does not fit; null where it fits.

    A value that was not sent is that of the ``other`` image, if one is named.
    """
    text, others = (
        F.coalesce(*[F.col("invalid")[f"{one}.{name}"] for name in column.lake_names])
        for one in (image, other or image)
    )
    return text if other is None else F.when(is_absent(column, image), others).otherwise(text)


def _literal_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _position() -> SparkColumn:
    return F.struct(*[F.col("source_position")[name].alias(name) for name in _POSITION])


def _literal(position: SourcePosition) -> SparkColumn:
    values = ((name, F.lit(getattr(position, name)).cast(kind)) for name, kind in _POSITION.items())
    return F.struct(*[value.alias(name) for name, value in values])
