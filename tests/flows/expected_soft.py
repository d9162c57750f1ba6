"""The snapshot with soft deletes that a changelog gives, from its rows one by one in Python: the oracle of soft deletes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.model.added_columns import AUDITED
from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.tables import TableId
from dts_assets.store.columns import flat_name
from tests.flows.expected_history import Keys, hashable, replay, values_and_texts

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]

SHOWN = ("event_time", "kafka_partition", "kafka_offset", *AUDITED.values())
"""The columns of a changelog that a snapshot with all audit columns shows."""


@dataclass
class _Standing:
    """A row, the change that it shows, and when it was deleted."""

    values: dict[str, Any]
    texts: dict[str, str]
    change: Row
    deleted_at: Any = None

    def told(self) -> tuple[Any, ...]:
        shown = tuple(repr(self.change[name]) for name in SHOWN)
        return hashable(self.values), hashable(self.texts), shown, self.deleted_at


def _time(row: Row) -> Any:
    return row["event_time"] or row["window_start"]


@dataclass
class _Table:
    """A table of the source that goes through its changes; rows of a table without a key stand side by side."""

    columns: Sequence[Column]
    live: dict[Key, list[_Standing]] = field(default_factory=dict)
    gone: dict[Key, list[_Standing]] = field(default_factory=dict)

    @property
    def is_bag(self) -> bool:
        return not any(column.is_key for column in self.columns)

    def key(self, values: dict[str, Any], texts: dict[str, str]) -> Key:
        columns = [column for column in self.columns if column.is_key] or self.columns
        return tuple((repr(values[one.name]), texts.get(one.name)) for one in columns)

    def rekey(self, columns: Sequence[Column]) -> None:
        """Find rows by another key from now on."""
        self.columns = columns
        for name in ("live", "gone"):
            there = [one for some in getattr(self, name).values() for one in some]
            found: dict[Key, list[_Standing]] = {}
            for one in there:
                found.setdefault(self.key(one.values, one.texts), []).append(one)
            setattr(self, name, found)

    def image(self, row: Row, image: str) -> tuple[dict[str, Any], dict[str, str], set[str]] | None:
        """The values and texts of an image, and the columns that it lacks; a key column is the other image's then."""
        if row[image] is None:
            return None
        other = "before" if image == "after" else "after"
        values, texts, lacks = {}, {}, set()
        invalid, absent = dict(row["invalid"] or ()), set(row["absent"] or ())
        for column in self.columns:
            source = image
            if f"{image}.{column.name}" in absent:
                if (column.is_key or self.is_bag) and row[other] is not None:
                    source = other
                else:
                    lacks.add(column.name)
            values[column.name] = row[source].get(column.name)
            if f"{source}.{column.name}" in invalid:
                texts[column.name] = invalid[f"{source}.{column.name}"]
        return values, texts, lacks

    def leave(self, row: Row) -> _Standing | None:
        before, after = self.image(row, "before"), self.image(row, "after")
        if before is None or row["op"] not in ("update", "delete"):
            return None
        values, texts, lacks = before
        key = self.key(values, texts)
        if not self.is_bag and after is not None and self.key(*after[:2]) == key:
            return None
        there = self.live.get(key, [])
        stood = min(there, key=_by_what_is_shown) if there else None
        if stood is not None:
            there.remove(stood)
        if self.is_bag:
            if stood is not None and row["op"] == "delete":
                self.gone.setdefault(key, []).append(_Standing(values, texts, row, _time(row)))
            return None
        _fill(values, texts, lacks, stood)
        self.gone[key] = [_Standing(values, texts, row, _time(row))]
        return stood

    def take(self, row: Row, left: _Standing | None) -> None:
        after = self.image(row, "after")
        if after is None:
            return
        values, texts, lacks = after
        key = self.key(values, texts)
        there = self.live.setdefault(key, [])
        if not self.is_bag:
            stood = there.pop() if there else None
            self.gone.pop(key, None)
            _fill(values, texts, lacks, stood if left is None and row["op"] == "update" else left)
        there.append(_Standing(values, texts, row))

    def truncate(self, row: Row) -> None:
        for key, there in self.live.items():
            for one in there:
                one.deleted_at = _time(row)
            self.gone.setdefault(key, []).extend(there)
        self.live.clear()


def _fill(values: dict[str, Any], texts: dict[str, str], lacks: Iterable[str], stood: _Standing | None) -> None:
    for name in lacks:
        values[name] = None if stood is None else stood.values[name]
        if stood is not None and name in stood.texts:
            texts[name] = stood.texts[name]


def _by_what_is_shown(one: _Standing) -> tuple[Any, ...]:
    values = (one.change[name] for name in SHOWN)
    return tuple((value is not None, tuple(value.values()) if isinstance(value, dict) else value) for value in values)


def expected_rows(
    rows: Iterable[Row], columns: Sequence[Column], frontier: Frontier, keys: Keys = ()
) -> Counter[tuple[Any, ...]]:
    """The rows that live and the deleted rows behind the changes that a frontier holds."""
    table = _Table(columns)
    replay(table, rows, columns, frontier, keys)
    return Counter(one.told() for found in (table.live, table.gone) for some in found.values() for one in some)


def stored_rows(rows: Iterable[Row], columns: Sequence[Column]) -> Counter[tuple[Any, ...]]:
    """The rows of a snapshot as it stands."""
    names = ("_event_time", "_kafka_partition", "_kafka_offset", *AUDITED)
    return Counter(
        (
            *values_and_texts(row, columns),
            tuple(repr(row[name]) for name in names),
            row["_deleted_at"],
        )
        for row in rows
    )


def assert_soft_snapshots_hold(pipeline: Pipeline, *, without: Collection[TableId] = (), keys: Keys = ()) -> int:
    """Every snapshot has the rows that its changelog gives up to its frontier; return how many were deleted.

    Tables ``without`` stand still: their changelogs may have gone on. ``keys`` are those that every table had.
    """
    count = 0
    for table, columns in known_tables(pipeline).items():
        if table in without:
            continue
        state = stored_state(pipeline, SNAPSHOT.name, table)[1]
        changes = pipeline.lake.scan(pipeline.table_path("changelog", table))
        found = pipeline.lake.scan(pipeline.table_path(SNAPSHOT.name, table))
        if found is None or changes is None:
            continue
        # Behind DROP and CREATE a snapshot has the columns of the new table, its deleted rows, too.
        columns = tuple(one for one in columns if flat_name(one.name) in found.column_names)
        stored = stored_rows(found.to_pylist(), columns)
        assert stored == expected_rows(changes.to_pylist(), columns, state.frontier, keys), table
        count += sum(many for told, many in stored.items() if told[3] is not None)
    return count
