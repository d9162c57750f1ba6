"""Names that no path, no catalog and no engine likes: tables and columns keep apart, and come back by their own names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.tables import TableId
from dts_assets.store.schemas import SOURCE_TABLE_PROPERTY
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, item, items, open_short, short_source
from tests.flows.source import DATABASE, Ddl, Dml, Source
from tests.flows.source_tables import ABSENT, DATE, INT, TEXT, Field, Row, Table

LONG = "订" * 64
"""The longest name that MySQL allows: in ASCII its folder would have 384 bytes."""

NAMES = {
    "id": "ID", "day": "Day", "_event_time": "_source__event_time", "_source__event_time": "_source__source__event_time",
    "_File": "_source__File", "_pos": "_source__pos", "__takes": "__takes", "__key_0": "__key_0", "i": "i",
    "ı": "ı__544bc1", "ı__544bc1": "ı__544bc1__1db9f5", "a.b`c": "a.b`c", "\0": "\0",
}  # fmt: skip
"""The names in a snapshot by those at the source, after id and day were respelled. Spark takes a dotless i for an i."""

OTHERS = ("", "Orders", "orders", "a/b.c", "x" * 400, "x" * 399 + "y")


def _hostile() -> Table:
    kinds = {"id": INT, "day": DATE, "_File": INT, "__key_0": INT}
    return Table(LONG, [Field(name, kinds.get(name, TEXT), name in ("id", "day")) for name in NAMES])


def _row(number: int, day: str) -> Row:
    texts = {name: f"{name} of {number}" for name in NAMES}
    return {**texts, "id": number, "day": day, "_File": number, "__key_0": -number}


def _respelled(source: Source, at: Any) -> None:
    """Spell two columns another way, as one statement does it at the source."""
    table, new = source.tables[LONG], {"id": "ID", "day": "Day"}
    table.columns = [Field(new.get(one.name, one.name), one.kind, one.is_key) for one in table.columns]
    source.rows[LONG] = {
        key: {new.get(name, name): row[name] for name in row} for key, row in source.rows[LONG].items()
    }
    source.transaction(
        at, *[Ddl(f"ALTER TABLE `{LONG}` RENAME COLUMN `{old}` TO `{name}`") for old, name in new.items()]
    )


def _history(days: Sequence[str], *, lacking: bool) -> Source:
    """Three windows; ``lacking`` says that some changes lack columns."""
    source = short_source(_hostile(), *map(items, OTHERS))
    table = source.tables[LONG]
    for name in OTHERS:
        insert(source, border(0) + SECOND, range(len(name) % 7 + 1), table=name)
    source.transaction(border(0) + SECOND, Dml(table, [(None, _row(number, day)) for number, day in enumerate(days)]))
    if lacking:
        absent: Row = dict.fromkeys(NAMES, ABSENT) | {"id": 3, "day": days[3]}
        source.transaction(
            border(0) + 2 * SECOND, Dml(table, [(absent, dict.fromkeys(NAMES, ABSENT) | {"i": "dotted"})])
        )
    source.checkpoint(border(0) + 5 * SECOND)
    _respelled(source, border(1) + SECOND)
    for name in OTHERS:
        insert(source, border(1) + SECOND, range(10, 12), table=name)
    old = list(source.rows[LONG].values())
    source.transaction(border(1) + 2 * SECOND, Dml(table, [(old[0], {**old[0], "i": "new"})]))
    source.transaction(border(1) + 3 * SECOND, Dml(table, [(old[2], None)]))
    source.checkpoint(border(1) + 5 * SECOND)
    if lacking:
        absent = dict.fromkeys((column.name for column in table.columns), ABSENT)
        source.transaction(
            border(2) + SECOND, Dml(table, [({**absent, "ID": 1, "Day": days[1]}, {**absent, "ı": "dotless"})])
        )
    source.transaction(border(2) + 2 * SECOND, Dml(table, [(old[3], {**old[3], "ID": 30})]))
    source.checkpoint(border(2) + 5 * SECOND)
    return source


def test_names_of_any_kind_without_spark(tmp_path: Path) -> None:
    source = _history(("2021-05-16", "2021-05-17", "2021-05-17", "2021-05-18"), lacking=False)
    harness = open_short(bench_in_process(tmp_path, "names"), tmp_path / "capture", source.messages)
    _make(harness)
    _expect(harness, source)
    _expect_names(harness, source)


@pytest.mark.spark
@pytest.mark.long
def test_tables_and_columns_of_any_name_are_equal_to_the_source(bench: Bench, tmp_path: Path) -> None:
    source = _history(("0000-00-00", "2021-02-30", "2021-05-17", "2021-05-17"), lacking=True)
    harness = open_short(bench, tmp_path / "capture", source.messages)
    _make(harness)
    _expect(harness, source)
    harness.tables(0)  # replaced, after columns were respelled
    _expect(harness, source)
    _expect_names(harness, source)
    for name in source.tables:
        path = harness.pipeline.table_path("snapshot", TableId(DATABASE, "", name))
        assert harness.session.table(harness.pipeline.lake.spark_name(path)).count() > 0


def _make(harness: Harness) -> None:
    """Make each window before the entries of the next one."""
    harness.raw()
    harness.entries(0)
    harness.tables(0)
    harness.entries()
    harness.tables(1)
    harness.tables(2)


def _expect(harness: Harness, source: Source) -> None:
    for name in source.tables:
        rows, stored = source.rows[name].values(), harness.rows("snapshot", *TableId(DATABASE, "", name).path)
        if name != LONG:
            found = {row["id"]: {key: row[key] for key in item(0)} for row in stored}
            assert found == {row["id"]: dict(row) for row in rows}, name
            continue
        shown = {}
        for row in stored:
            texts = {key.lower(): text for key, text in row["_invalid"] or ()}
            day = texts.get("day", str(row["Day"]))
            shown[row["ID"]] = [day if one == "Day" else row[one] for one in NAMES.values()]
        assert shown == {row["ID"]: list(row.values()) for row in rows}


def _expect_names(harness: Harness, source: Source) -> None:
    pipeline = harness.pipeline
    known = {table.table: columns for table, columns in known_tables(pipeline).items()}
    assert set(known) == set(source.tables)
    for name in source.tables:
        for layer in ("changelog", "snapshot"):
            path = pipeline.table_path(layer, TableId(DATABASE, "", name))
            stored = pipeline.lake.table(path)
            assert stored is not None
            assert json.loads(stored.properties[SOURCE_TABLE_PROPERTY]) == [DATABASE, "", name]
    snapshot = pipeline.lake.table(pipeline.table_path("snapshot", TableId(DATABASE, "", LONG)))
    assert snapshot is not None
    assert [field.name for field in snapshot.schema().fields][: len(NAMES)] == list(NAMES.values())
    pipeline.settings.registry_path.unlink()
    assert {table.table: columns for table, columns in known_tables(pipeline).items()} == known
