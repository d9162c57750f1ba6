"""The history that a changelog gives, from its rows one by one in Python: the oracle of the layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Protocol, TypeAlias

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import HISTORY
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.store.columns import flat_name

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]
Keys: TypeAlias = Sequence[tuple[SourcePosition, tuple[str, ...]]]
"""The primary keys that a table had, each with the position of the first change that told it."""


@dataclass
class _Version:
    values: dict[str, Any]
    texts: dict[str, str]
    begin: datetime
    position: SourcePosition
    op: str
    end: datetime | None = None
    end_position: SourcePosition | None = None

    def told(self) -> tuple[Any, ...]:
        return (
            hashable(self.values), hashable(self.texts), self.begin, self.end, self.position, self.end_position, self.op
        )  # fmt: skip


def hashable(values: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, repr(value)) for name, value in values.items()))


def position_of(row: Row, name: str = "source_position") -> SourcePosition:
    return SourcePosition(*(row[name][part] for part in ("lineage", "file", "position")))


class _Table:
    """A table of the source that goes through its changes."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._keys = [column for column in columns if column.is_key]
        self._open: dict[Key, list[_Version]] = {}
        self._latest: dict[Key, datetime] = {}
        self.versions: list[_Version] = []

    def rekey(self, columns: Sequence[Column]) -> None:
        """Find rows by another key from now on."""
        self._columns, self._keys = columns, [column for column in columns if column.is_key]
        there = [version for versions in self._open.values() for version in versions]
        self._open, self._latest = {}, {}
        for version in there:
            self._open.setdefault(self._key(version.values, version.texts), []).append(version)
        for version in self.versions:
            if version.end is not None:
                key = self._key(version.values, version.texts)
                self._latest[key] = max(version.end, self._latest.get(key, version.end))

    def _key(self, values: dict[str, Any], texts: dict[str, str]) -> Key:
        columns = self._keys or self._columns
        return tuple((repr(values[one.name]), texts.get(one.name)) for one in columns)

    def _image(self, row: Row, image: str, other: str | None) -> tuple[dict[str, Any], dict[str, str]] | None:
        """The values and texts of an image; what it was not sent is the other image's, if it tells rows apart."""
        if row[image] is None:
            return None
        values, texts = {}, {}
        invalid, absent = dict(row["invalid"] or ()), set(row["absent"] or ())
        for column in self._columns:
            source = image
            tells = column.is_key or not self._keys
            if f"{image}.{column.name}" in absent and other is not None and row[other] is not None and tells:
                source = other
            values[column.name] = row[source].get(column.name)
            if f"{source}.{column.name}" in invalid:
                texts[column.name] = invalid[f"{source}.{column.name}"]
        return values, texts

    def _end(self, key: Key, row: Row) -> _Version | None:
        there = self._open.get(key)
        if not there:
            return None
        gone = there.pop(0)
        gone.end, gone.end_position = max(gone.begin, row["event_time"]), position_of(row)
        self._latest[key] = gone.end
        return gone

    def truncate(self, row: Row) -> None:
        for key in list(self._open):
            while self._end(key, row):
                pass

    def leave(self, row: Row) -> _Version | None:
        """The row goes from its old key; return its last version."""
        before, after = self._image(row, "before", "after"), self._image(row, "after", "before")
        if before is None or row["op"] not in ("update", "delete"):
            return None
        old = self._key(*before)
        stays = self._keys and after is not None and self._key(*after) == old
        return None if stays else self._end(old, row)

    def take(self, row: Row, left: _Version | None) -> None:
        """The row comes to its new key, from where it ``left`` or in the place of its version there."""
        after = self._image(row, "after", "before")
        if after is None:
            return
        values, texts = after
        new = self._key(values, texts)
        if self._keys:
            stood = self._end(new, row)
            left = stood if left is None and row["op"] == "update" else left
        absent = {name.removeprefix("after.") for name in row["absent"] or () if name.startswith("after.")}
        for name in absent - {column.name for column in self._keys or self._columns}:
            values[name] = None if left is None else left.values.get(name)
            if left is not None and name in left.texts:
                texts[name] = left.texts[name]
        begin = row["event_time"]
        if self._keys:
            begin = max(begin, self._latest.get(new, begin))
        made = _Version(values, texts, begin, position_of(row), row["op"])
        self._open.setdefault(new, []).append(made)
        self.versions.append(made)


class Replayed(Protocol):
    """A table that goes through its changes; ``leave`` tells ``take`` what the row was at the key that it left."""

    def rekey(self, columns: Sequence[Column]) -> None: ...

    def leave(self, row: Row) -> Any: ...

    def take(self, row: Row, left: Any) -> None: ...

    def truncate(self, row: Row) -> None: ...


def is_ambiguous(row: Row, columns: Sequence[Column]) -> bool:
    """Whether a change does not tell the key of the row that goes. Without a key the model needs whole old rows."""
    if row["before"] is None or row["op"] not in ("update", "delete"):
        return False
    absent, telling = set(row["absent"] or ()), [column for column in columns if column.is_key]
    assert telling or not any(one.startswith("before.") for one in absent), "rows are found by parts of them elsewhere"
    return any(
        f"before.{one.name}" in absent and (row["after"] is None or f"after.{one.name}" in absent) for one in telling
    )


def replay(
    table: Replayed, rows: Iterable[Row], columns: Sequence[Column], frontier: Frontier, keys: Keys = ()
) -> None:
    """Give a table the changes that a frontier holds and that tell their rows, in the order of the source.

    Without ``keys`` rows are found by the key that ``columns`` have.
    """
    held, left_keys = [row for row in rows if frontier.holds(row["window_start"], position_of(row))], list(keys)
    for position, rows_of_event in groupby(sorted(held, key=position_of), key=position_of):
        while left_keys and left_keys[0][0] <= position:
            columns = [replace(one, is_key=one.name in left_keys[0][1]) for one in columns]
            table.rekey(columns)
            left_keys.pop(0)
        told = (row for row in rows_of_event if not is_ambiguous(row, columns))
        event = sorted(told, key=lambda row: (row["kafka_partition"], row["row_number"]))
        changes = [row for row in event if row["op"] != "truncate"]
        if (
            len({row["kafka_partition"] for row in changes}) > 1
        ):  # no order among pieces: a key is left before it is taken
            left = [table.leave(row) for row in changes]
            for row, stood in zip(changes, left, strict=True):
                table.take(row, stood)
        else:
            for row in changes:
                table.take(row, table.leave(row))
        for row in [row for row in event if row["op"] == "truncate"][:1]:
            table.truncate(row)


def expected_versions(
    rows: Iterable[Row], columns: Sequence[Column], frontier: Frontier, keys: Keys = ()
) -> Counter[tuple[Any, ...]]:
    """The versions of the changes that a frontier holds."""
    table = _Table(columns)
    replay(table, rows, columns, frontier, keys)
    return Counter(one.told() for one in table.versions)


def values_and_texts(row: Row, columns: Sequence[Column]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The source's values of a stored row, and its texts of values that do not fit, by the source's columns."""
    flat, texts = {column.name: flat_name(column.name) for column in columns}, dict(row["_invalid"] or ())
    return (
        hashable({name: row[flat[name]] for name in flat}),
        hashable({name: text for name in flat if (text := texts.get(flat[name])) is not None}),
    )


def stored_versions(rows: Iterable[Row], columns: Sequence[Column]) -> Counter[tuple[Any, ...]]:
    """The versions of a history as it stands."""
    return Counter(
        (
            *values_and_texts(row, columns),
            row["_valid_from"],
            row["_valid_to"],
            position_of(row, "_valid_from_position"),
            None if row["_valid_to_position"] is None else position_of(row, "_valid_to_position"),
            row["_op"],
        )
        for row in rows
    )


def assert_histories_hold(pipeline: Pipeline, *, without: Collection[TableId] = (), keys: Keys = ()) -> int:
    """Every history has the versions that its changelog gives up to its frontier; return how many there are.

    Tables ``without`` stand still: their changelogs may have gone on. ``keys`` are those that every table had.
    """
    count = 0
    for table, columns in known_tables(pipeline).items():
        if not HISTORY.takes(pipeline.settings, table) or table in without:
            continue
        found = _rows(pipeline, "history", table)
        _, state = stored_state(pipeline, HISTORY.name, table)
        expected = expected_versions(_rows(pipeline, "changelog", table), columns, state.frontier, keys)
        stored = stored_versions(found, columns)
        assert stored == expected, f"{table}: too many {stored - expected}, too few {expected - stored}"
        assert all(row["_valid_to"] is None or row["_valid_from"] <= row["_valid_to"] for row in found)
        count += len(found)
    return count


def _rows(pipeline: Pipeline, layer: str, table: TableId) -> list[Row]:
    found = pipeline.lake.scan(pipeline.table_path(layer, table))
    return [] if found is None else found.to_pylist()
