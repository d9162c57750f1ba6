"""Lakes in which the base commit left plain values in rows that a statement moved: a run of the present code makes them right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.plain_values import plain_values
from tests.flows.short import LANES
from tests.flows.test_moved_rules import LIVES, MARK
from tests.versions.base import BASE
from tests.versions.captures import ENVIRONMENT, Case
from tests.versions.lakes import Place, placed, rows_alone, written
from tests.versions.made_by import NOTHING, Codes, ask, make_lake, run_command, settle

pytestmark = pytest.mark.more

HASH = {"hash": {"key": "${TESTS_ROW_KEY}"}}


def case_of(name: str) -> Case:
    return Case(
        (tuple(LIVES[name]().source.messages),),
        {
            "format": "dts-protobuf", "partitions": LANES, "history": ["*"], "sql": {"tables": ["*"]},
            "columns": {"bank.customers.email": HASH},
        },
    )  # fmt: skip


def made_by(name: str, codes: Codes, commit: str | None, folder: Path) -> Place:
    case = case_of(name)
    place = placed(case, folder / "lake", written(case, folder / "pieces"))
    make_lake(codes.of(commit) if commit else codes.present, place.config, *place.whole(), variables=ENVIRONMENT)
    return place


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    layers = ("changelog.", "snapshot.", "history.", "sql.")
    return {name: one.rows for name, one in rows_alone(place).items() if name.startswith(layers)}


@pytest.mark.parametrize("name", ["gh_ost", "renamed", "changed"])
def test_a_lake_with_plain_values_is_right_behind_a_run(name: str, codes: Codes, tmp_path: Path) -> None:
    older = made_by(name, codes, BASE, tmp_path / "older")
    assert plain_values(older.folder / "lake", [MARK])
    made = make_lake(codes.present, older.config, ask(), settle(), ask(), variables=ENVIRONMENT)
    stale, after = made.lakes[0].answers
    assert stale.tables
    assert after == NOTHING
    assert plain_values(older.folder / "lake", [MARK]) == {}
    assert typed(older) == typed(made_by(name, codes, None, tmp_path / "newer"))


@pytest.mark.long
@pytest.mark.spark
def test_the_command_run_makes_such_a_lake_right(codes: Codes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    older = made_by("gh_ost", codes, BASE, tmp_path)
    assert plain_values(older.folder / "lake", [MARK])
    run_command(codes.present, "run", "--config", str(older.config))
    assert plain_values(older.folder / "lake", [MARK]) == {}
