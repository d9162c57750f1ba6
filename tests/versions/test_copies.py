"""Lakes whose copies the base commit stored as the source has them: a run of the present code makes them right."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.maintenance import maintain
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.removal import add_tables
from dts_assets.flows.this_process import this_process
from dts_assets.model.copied_tables import CopyState
from dts_assets.model.maintenance import Step
from dts_assets.model.tables import TableId
from dts_assets.settings import load_settings
from tests.flows.history import border
from tests.flows.plain_values import plain_values
from tests.flows.short import LANES, SECOND, insert, items, short_source
from tests.versions.base import BASE
from tests.versions.captures import ENVIRONMENT, NAME, Case
from tests.versions.lakes import Place, placed, rows_alone, written
from tests.versions.made_by import NOTHING, Codes, ask, copy, make_lake, remove, run_command, settle

pytestmark = pytest.mark.more

ITEMS = TableId("bank", "", "items")
NUMBERS = range(50, 60)
MARKS = [f"a note of a person {number}" for number in NUMBERS]
RULES: dict[str, Any] = {
    "columns": {"bank.items.note": {"hash": {"key": "${TESTS_ROW_KEY}"}}},
    "rows": {"bank.items": "n < 8"},
}


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def case_of(**settings: Any) -> Case:
    """A topic with few rows of a table, and a file with the others."""
    source = short_source(items())
    insert(source, border(0) + SECOND, [1])
    at = source.committed
    insert(source, border(0) + 20 * SECOND, [2])
    for number in range(3):
        source.checkpoint(border(number) + 500 * SECOND)
    rows = "".join(f"{number},{number - 50},{mark}\n" for number, mark in zip(NUMBERS, MARKS, strict=True))
    bootstrap = {"from": {"csv": "./files"}, "at": f"{at[0]}:{at[1]}"}
    values = {"format": "dts-protobuf", "partitions": LANES, "history": ["*"], "bootstrap": bootstrap, **settings}
    return Case((tuple(source.messages),), values, extra={"rows.csv": f"id,n,note\n{rows}".encode()})


def place_of(folder: Path, **settings: Any) -> Place:
    """A lake to be made, with the file that a table is copied from."""
    case = case_of(**settings)
    place = placed(case, folder / "lake", written(case, folder / "pieces"))
    (place.folder / "files").mkdir()
    (place.folder / "rows.csv").rename(place.folder / "files" / "bank.items.csv")
    return place


def lake_of(codes: Codes, commit: str | None, folder: Path, **settings: Any) -> Place:
    """A lake that a code has made, with windows from before and behind the copy."""
    place = place_of(folder, **settings)
    code = codes.of(commit) if commit else codes.present
    make_lake(code, place.config, *place.whole(), copy(), settle(), variables=ENVIRONMENT)
    return place


def pipeline_of(place: Place) -> Pipeline:
    return open_pipeline(load_settings(place.config), NAME)


def plain(place: Place) -> set[str]:
    """The layers of which a file, of any version, holds a note of a person."""
    return {Path(name).parts[1] for name in plain_values(place.folder / "lake", MARKS)}


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    layers = ("changelog.", "snapshot.", "history.")
    return {name: one.rows for name, one in rows_alone(place).items() if name.startswith(layers)}


def test_plain_copies_are_written_anew_under_the_rules(codes: Codes, tmp_path: Path) -> None:
    older = lake_of(codes, BASE, tmp_path / "older", **RULES)
    assert plain(older) == {"copies"}
    bounds = {"key_from", "key_until"}
    path = pipeline_of(older).table_path("copies", ITEMS)
    assert bounds <= {name for name, _ in pipeline_of(older).lake.fields(path) or ()}
    made = make_lake(codes.present, older.config, ask(), settle(), ask(), variables=ENVIRONMENT)
    stale, after = made.lakes[0].answers
    assert stale.tables
    assert after == NOTHING
    assert plain(older) == set()
    assert not bounds & {name for name, _ in pipeline_of(older).lake.fields(path) or ()}
    (copied,) = pipeline_of(older).ledger.copied_tables()
    assert [one.column for one in copied.passed] == ["note"]
    assert copied.passed_filter
    newer = lake_of(codes, None, tmp_path / "newer", **RULES)
    assert plain(newer) == set()
    assert len(rows_alone(older)["snapshot.bank.items"].rows) == 9
    assert _without_numbers(typed(older)) == _without_numbers(typed(newer))


def _without_numbers(rows: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Rows without the instants at which copies ended."""
    return {name: sorted(re.sub(r"datetime\([^)]*\)", "", one) for one in some) for name, some in rows.items()}


def test_copies_without_rules_go_on_and_lose_their_bounds(codes: Codes, tmp_path: Path) -> None:
    older = lake_of(codes, BASE, tmp_path)
    before = rows_alone(older)["snapshot.bank.items"]
    make_lake(codes.present, older.config, settle(), variables=ENVIRONMENT)
    assert rows_alone(older)["snapshot.bank.items"] == before
    assert len(rows_alone(older)["copies.bank.items"].rows) == len(NUMBERS)
    pipeline = pipeline_of(older)
    assert [one.state for one in pipeline.ledger.copied_tables()] == [CopyState.COPIED]


def test_copies_that_a_removal_left_go_with_the_next_run(codes: Codes, tmp_path: Path) -> None:
    older = lake_of(codes, BASE, tmp_path)
    make_lake(codes.of(BASE), older.config, remove("bank", "items"), variables=ENVIRONMENT)
    assert "copies" in plain(older)
    make_lake(codes.present, older.config, settle(), variables=ENVIRONMENT)
    pipeline, later = pipeline_of(older), datetime.now(UTC) + timedelta(days=3)
    for report in maintain(pipeline, only=[Step.EXPIRY, Step.RETENTION], spark=this_process, progress=print, now=later):
        assert report.failed == ()
    assert plain(older) == set()
    assert add_tables(pipeline, [ITEMS], progress=lambda _: None) == 4
    (paused,) = pipeline.ledger.paused_tables()
    assert "copy it again: dts-assets copy subscription --table bank.items" in paused.reason
    make_lake(codes.present, older.config, copy(), settle(), variables=ENVIRONMENT)
    assert len(rows_alone(older)["snapshot.bank.items"].rows) == 11


@pytest.mark.long
@pytest.mark.spark
def test_the_command_run_writes_plain_copies_anew(codes: Codes, tmp_path: Path) -> None:
    older = lake_of(codes, BASE, tmp_path, **RULES)
    run_command(codes.present, "run", "--config", str(older.config))
    assert plain(older) == set()
