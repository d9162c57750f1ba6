"""Lives on a real server under each policy: snapshots have the server's values where the policy puts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.pauses import resume_tables
from dts_assets.model.tables import TableId
from tests.dts_emulator.followed_scripts import SCRIPTS, recorded_script
from tests.dts_emulator.judged_snapshots import faults_of, rows_of
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import Held, LifeRecorder, kinds_of, life_recorder
from tests.dts_emulator.ways import EVERYWHERE, WAYS, windows_of
from tests.flows.harness import Harness
from tests.tiers import ALL

pytestmark = [pytest.mark.database, pytest.mark.more]

T = TableId("d", "", "t")

PLACES: Mapping[str, tuple[list[str], dict[str, str | None]]] = {
    "a column goes and a column gets another name": ([], {"id": "id", "a": None, "b": "a"}),
    "two columns change names": ([], {"id": "id", "a": "a", "b": "b"}),
    "a column is dropped and added again under its name with another type": ([], {"id": "id", "a": "a", "b": None}),
    "an added column has its default in rows that no event touches": ([], {"id": "id", "a": "a", "b": "b"}),
    "statement follows row follows statement": ([], {"id": "id", "a": "a", "b": "b"}),
    "a table without a key gets statements": (["word"], {"word": None, "n": "n"}),
    "the key's column gets another name": ([], {"id": "number", "a": "a", "b": "b"}),
    "the key goes, comes and has other columns": ([], {"id": "id", "a": "a", "b": "b"}),
    "truncate, drop and create with other columns": ([], {"b": "b", "id": "id"}),
    "many clauses in one statement": (["c"], {"id": "id", "a": None, "b": "a"}),
    "a statement for a table in a window without any row of it": (["a"], {"id": "id", "a": None, "b": "b"}),
}
"""The columns that ``keep`` leaves behind those of the server, and those of ``freeze`` with their names at the server now."""

SHORT = ("a column goes and a column gets another name", "many clauses in one statement",
         "a table without a key gets statements")  # fmt: skip


@pytest.fixture(scope="module")
def recorder() -> Iterator[LifeRecorder]:
    with life_recorder() as found:
        yield found


def shown(harness: Harness, names: list[str]) -> list[tuple[Any, ...]]:
    rows = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", T))
    assert rows is not None
    assert [name for name in rows.column_names if name[0] != "_" or name == "_new_columns"] == names
    return sorted(map(tuple, rows_of(rows, names)), key=repr)


def text(value: Any) -> str | None:
    if value is None:
        return None
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def expected(held: Held, frozen: Mapping[str, str | None]) -> list[tuple[Any, ...]]:
    """The rows of a frozen snapshot by those of the server."""
    names, found = list(held.schema.names), []
    for row in held.rows:
        values = dict(zip(names, row, strict=True))
        own = [None if one is None else values[one] for one in frozen.values()]
        new = {name: text(value) for name, value in values.items() if name not in frozen.values()}
        mapped = [(name, one) for name, one in new.items() if one is not None]
        found.append((*own, mapped or None))
    return sorted(found, key=repr)


LIVES = [(name, image) for name in PLACES for image in ("FULL", "MINIMAL")]
SHORT_LIVES = [(SHORT[1], "FULL"), (SHORT[2], "MINIMAL")]


@pytest.mark.more
@pytest.mark.parametrize(("name", "image"), LIVES if ALL else SHORT_LIVES)
def test_dropped_columns_stay_and_new_ones_stand_in_a_map(
    name: str, image: str, recorder: LifeRecorder, tmp_path: Path
) -> None:
    life = recorded_script(recorder, SCRIPTS[name], image=image)
    held, (kept, frozen) = life.moments[-1].tables[T], PLACES[name]
    assert held.doubt is None
    for number, way in enumerate(WAYS if ALL else WAYS[:1]):
        for policy in ("keep", "freeze"):
            folder = tmp_path / f"{policy}{number}"
            folder.mkdir()
            harness = recorded("dts-protobuf", life.transactions, folder, schema_changes=policy, **EVERYWHERE)
            way(harness, life, 7)
            if policy == "keep":
                names = [*held.schema.names, *kept]
                wanted = sorted(((*row, *[None] * len(kept)) for row in held.rows), key=repr)
            else:
                names, wanted = [*frozen, "_new_columns"], expected(held, frozen)
            assert in_order(shown(harness, names)) == in_order(wanted)
            fields = dict(harness.pipeline.lake.fields(harness.pipeline.table_path("snapshot", T)) or ())
            kinds = {one: kind.lake_type for one, kind in kinds_of(held.schema).items()}
            own = {one: one for one in held.schema.names} if policy == "keep" else frozen
            assert {one: fields[one] for one, now in own.items() if now} == {
                one: kinds[now] for one, now in own.items() if now
            }


def in_order(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows with the entries of their maps in order."""
    return sorted(repr(tuple(sorted(one) if isinstance(one, list) else one for one in row)) for row in rows)


def resumed(harness: Harness) -> list[str]:
    """Resume what stopped, and return the reasons."""
    found = harness.pipeline.ledger.paused_tables()
    assert all(f"dts-assets tables resume {row.table}" in row.reason for row in found)
    resume_tables(harness.pipeline, [row.table for row in found])
    return [row.reason for row in found]


@pytest.mark.parametrize("name", PLACES if ALL else SHORT[:1])
def test_a_table_stops_and_ends_as_its_server_once_it_is_resumed(
    name: str, recorder: LifeRecorder, tmp_path: Path
) -> None:
    life = recorded_script(recorder, SCRIPTS[name])
    harness = recorded("dts-protobuf", life.transactions, tmp_path, schema_changes="stop", **EVERYWHERE)
    stops = list[str]()
    for number in windows_of(life):
        harness.all(number)
        stops += resumed(harness)
    for _ in range(4):
        harness.settle()
        stops += resumed(harness)
    assert not resumed(harness)
    assert stops
    found = faults_of(harness, life.moments[-1])
    assert not found.faults, f"{found}\n{life.script()}"
