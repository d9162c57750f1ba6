"""DDL entries become rows of the ``ddl`` table, and changelog rows of the tables that they empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.emptied_tables import EmptiedTable, emptied_among
from dts_assets.model.positions import SourcePosition
from dts_assets.model.source_types import ORACLE, OTHER_DIALECTS
from dts_assets.model.statement_words import naming_text, tables_in_words, words_of
from dts_assets.model.tables import TableId
from dts_assets.stages.changelog_rows import ENTRY_COLUMNS
from dts_assets.stages.entry_columns import source_positions
from dts_assets.stages.routed_changes import ChangeRoutes
from dts_assets.wire.columns.buffers import empty_lists, empty_maps
from dts_assets.wire.ddl.effects import HARMLESS, EffectKind, ParsedDdl
from dts_assets.wire.ddl.foreign_keys import count_keys
from dts_assets.wire.ddl.schema_history import OTHER_DIALECT, SourceStatement, names_table, parsed_statement
from dts_assets.wire.ddl.schema_news import APPLIED, applied_text
from dts_assets.wire.format import TableChanges

DDL_ENTRY_COLUMNS = (*ENTRY_COLUMNS, "message_type", "source_type", "database", "schema", "properties")
"""The columns of ``entries`` that statements are read from; beside them stands ``lineage``, which the ledger decides."""

FIRST_STATE = "INIT_DDL"
"""The message type of a table's definition at the begin of a full load: it changes nothing."""

_FIRST_STATE_EFFECT = "create"
"""The effect of a first state; that of a statement names its table, too."""

_MOST_DIGITS = 18

_EMPTYING = frozenset({EffectKind.TRUNCATE_TABLE, EffectKind.DROP_TABLE})
_EMPTYING_SOME = _EMPTYING | {EffectKind.DROP_DATABASE}
"""The same effects and those that do not name their tables."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: the row of its batch, its text, and its effects.

    Of a first state ``effect`` alone counts, not ``parsed``. Of sources beside the MySQL family only Oracle's statements that
    empty a table are parsed; its ``database`` is the schema. ``source_set`` is the set of a TDSQL that sent it.
    """

    index: int
    sql: str
    database: str
    execution_seconds: int | None
    parsed: ParsedDdl
    is_first_state: bool
    source_type: str = ""
    source_set: str = ""

    @property
    def is_of_other_dialect(self) -> bool:
        """True if the statement is of a source beside the MySQL family."""
        return self.source_type in OTHER_DIALECTS

    @property
    def applied(self) -> str:
        """``yes`` where snapshots follow the statement, else the reason why they do not."""
        if self.is_first_state:
            return APPLIED
        if self.is_of_other_dialect:
            return APPLIED if self.parsed.parsed else OTHER_DIALECT
        return applied_text(self.sql, self.database)

    @property
    def foreign_keys(self) -> int:
        """The number of foreign keys that the statement declares, by which the server changes rows."""
        return 0 if self.is_of_other_dialect else count_keys(self.sql)

    @property
    def naming_text(self) -> str:
        """The text in which names of tables stand, as far as the statement may name them."""
        return naming_text(self.sql, self.source_type)

    @property
    def effect(self) -> str | None:
        """The effect as it stands in the ``ddl`` table."""
        return _FIRST_STATE_EFFECT if self.is_first_state else self.parsed.effect

    @property
    def may_empty(self) -> bool:
        """True if the statement takes away all rows of some table, known or not."""
        return not self.is_first_state and any(effect.kind in _EMPTYING_SOME for effect in self.parsed.effects)

    @property
    def emptied(self) -> frozenset[EmptiedTable]:
        """The tables of which the statement takes away all rows."""
        found: set[EmptiedTable] = set()
        for effect in () if self.is_first_state else self.parsed.effects:
            if effect.kind in _EMPTYING:
                found.update(EmptiedTable(one.database, one.schema, one.table) for one in effect.tables)
            elif effect.kind is EffectKind.DROP_DATABASE:
                found.add(EmptiedTable(effect.database or "", "", ""))
        return frozenset(found)

    @property
    def altered(self) -> frozenset[EmptiedTable]:
        """The tables that are made, or get other columns, other defaults, other rows or another name.

        Those that lose all rows are left out. A table that is renamed is there by both names.
        """
        return frozenset(
            EmptiedTable(one.database, one.schema, one.table)
            for effect in (() if self.is_first_state else self.parsed.effects)
            if effect.kind not in HARMLESS - {EffectKind.DEFAULT} | _EMPTYING_SOME
            for one in effect.tables
        )

    @property
    def unread(self) -> str | None:
        """The words of a statement that was not understood; None of any other.

        Each may name a table that it changes.
        """
        return None if self.is_first_state or self.parsed.parsed else words_of(self.naming_text)


def statements(entries: pa.RecordBatch) -> list[Statement]:
    """Return the statements of a batch of entries in its order; all other entries are passed over.

    DRS writes DDL and INIT_DDL, which ``message_type`` or the property ``type`` says. Never raises for what a statement says.
    """
    types = pc.is_in(entries["message_type"], value_set=pa.array(["DDL", FIRST_STATE]))
    found, sets = [], entries["shard"] if "shard" in entries.schema.names else None
    for index in np.flatnonzero(np.asarray(pc.fill_null(types, False))).tolist():
        properties = dict(entries["properties"][index].as_py() or ())
        kinds = (entries["message_type"][index].as_py(), properties.get("type"))
        sql, source_type = properties.get("sql") or "", entries["source_type"][index].as_py() or ""
        database = entries["schema" if source_type == ORACLE else "database"][index].as_py() or ""
        execution_seconds = _whole_seconds(properties.get("executionTime") or "")
        parsed = parsed_statement(sql, database, source_type)
        source_set, first = "" if sets is None else sets[index].as_py() or "", FIRST_STATE in kinds
        found.append(Statement(index, sql, database, execution_seconds, parsed, first, source_type, source_set))
    return found


def _whole_seconds(text: str) -> int | None:
    """Return a number of seconds; None for a text that is none.

    No statement takes as long as a number of more digits says, and no column holds it.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def ddl_rows(entries: pa.RecordBatch, found: list[Statement]) -> pa.RecordBatch:
    """Return rows of the ``ddl`` table for the statements that :func:`statements` found in the batch, in their order."""
    index = pa.array([one.index for one in found], pa.int64())
    taken = entries.select([*DDL_ENTRY_COLUMNS, "lineage"]).take(index)
    columns = {
        "kafka_partition": taken["kafka_partition"],
        "window_start": taken["window_start"],
        "stage": pa.array(["tables"] * len(found), pa.string()),
        "kafka_offset": taken["last_offset"],
        "source_position": source_positions(taken),
        "gtid": taken["gtid"],
        "event_time": taken["event_time"],
        "execution_seconds": pa.array([one.execution_seconds for one in found], pa.int64()),
        "database": pa.array([one.database or None for one in found], pa.string()),
        "sql": pa.array([one.sql for one in found], pa.string()),
        "parsed": pa.array([one.is_first_state or one.parsed.parsed for one in found], pa.bool_()),
        "effect": pa.array([one.effect for one in found], pa.string()),
        "applied": pa.array([one.applied for one in found], pa.string()),
        "source_type": pa.array([one.source_type or None for one in found], pa.string()),
        "source_set": pa.array([one.source_set or None for one in found], pa.string()),
        "foreign_keys": pa.array([one.foreign_keys for one in found], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def source_statements(rows: pa.RecordBatch) -> list[SourceStatement]:
    """Return the statements of some rows of the ``ddl`` table, by which schemas can be followed."""
    return [
        SourceStatement(
            SourcePosition(**row["source_position"]),
            row["database"] or "",
            row["sql"] or "",
            row["event_time"],
            row["execution_seconds"] or 0,
            row["gtid"],
            row["window_start"],
            (row["kafka_partition"], row["kafka_offset"]),
            is_first_state=row["effect"] == _FIRST_STATE_EFFECT,
            source_type=row.get("source_type") or "",
            source_set=row.get("source_set") or "",
        )
        for row in rows.to_pylist()
    ]


def truncations(found: list[Statement], routes: ChangeRoutes) -> tuple[TableChanges, ...]:
    """Return the changes with ``op`` ``truncate``: one per statement and table, or shard, that is emptied or dropped.

    They have no image, but those of a shard have its columns in the old one. Their row numbers are 0, or count the shards that
    one statement empties. ``changelog_rows`` gives them their coordinates.
    """
    emptied: dict[TableId, list[Emptying]] = {}
    for statement in found:
        if not statement.is_first_state:
            numbers = Counter[TableId]()
            for table, shard in routes.emptied(statement.emptied, statement.source_set):
                emptied.setdefault(table, []).append(Emptying(statement.index, numbers[table], shard))
                numbers[table] += 1
    return tuple(_truncations(table, some, routes) for table, some in emptied.items())


def changed_tables(found: list[Statement], tables: Mapping[TableId, TableId]) -> Iterator[tuple[int, TableId]]:
    """Yield the row of each statement with every lake table that it may change.

    It may change its columns, what inserts have that lack one, rows that no event tells, or its name. ``tables`` has the lake
    tables of the known source tables. Several effects on one table count once.
    """
    for one in found:
        named: set[TableId] = set()
        for each in one.emptied | one.altered:
            named.update({each.id} & tables.keys() if each.table else emptied_among([each], tables))
        if (words := one.unread) is not None:
            named.update(table for table in tables_in_words(words, tables) if names_table(one.naming_text, table))
        for table in sorted({tables[source] for source in named}):
            yield one.index, table


def truncation(index: int, source: TableId, table: TableId, routes: ChangeRoutes) -> TableChanges:
    """Return the truncation of a lake table's rows of one source table, at an entry of a batch."""
    return _truncations(table, [Emptying(index, 0, routes.shard(source))], routes)


@dataclass(frozen=True, slots=True)
class Emptying:
    """The row of a statement in its batch, and the shard that it empties, with its number."""

    index: int
    number: int
    shard: tuple[str, ...]


def _truncations(table: TableId, emptied: list[Emptying], routes: ChangeRoutes) -> TableChanges:
    count = len(emptied)
    before = routes.shard_image(table, [one.shard for one in emptied])
    arrays = {
        "entry_index": pa.array([one.index for one in emptied], pa.int32()),
        "row_number": pa.array([one.number for one in emptied], pa.int32()),
        "op": pa.array(["truncate"] * count, pa.string()),
        "before": before,
        "after": pa.nulls(count, before.type),
        "absent": empty_lists(count),
        "invalid": empty_maps(count),
    }
    return TableChanges(table, pa.RecordBatch.from_pydict(arrays))
