"""Lakes of the base commit that `dts-assets run` mends, or names, although no window is left to be made."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.idle import UP_TO_DATE
from dts_assets.cli.main import cli
from dts_assets.flows import kept_copies
from dts_assets.model.copied_tables import CopyState
from dts_assets.model.version import CODE_VERSION
from dts_assets.store import expiry
from tests.flows.aging import AGES, DAYS, START, Days
from tests.flows.plain_values import plain_values
from tests.flows.short import LANES
from tests.versions.base import BASE
from tests.versions.captures import ENVIRONMENT, Case
from tests.versions.lakes import Place, placed, rows_alone, written
from tests.versions.made_by import Codes, Step, add, copy, edited, make_lake, remove, settle
from tests.versions.test_copies import ITEMS, lake_of, pipeline_of, place_of, plain

pytestmark = pytest.mark.more

BOUNDS = {"key_from", "key_until"}


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def run(place: Place) -> Result:
    """The typed command; it starts no run of Dagster, and so no JVM."""
    done = CliRunner().invoke(cli, ["run", "--config", str(place.config)], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert UP_TO_DATE in done.output
    return done


# Copies

CARELESS = {
    "dts_assets/flows/kept_copies.py": (
        "    if not copied:\n        return\n    _drop_removed",
        "    return\n    _drop_removed",
    )
}
"""The present code without its care for copies."""


def made_again(place: Place, codes: Codes, folder: Path) -> None:
    """Let the present code make all windows again, as a later version of the code would find them: nothing is left to do."""
    make_lake(edited(codes.present, folder / "careless", CARELESS), place.config, settle(), variables=ENVIRONMENT)


def bounds_of(place: Place) -> set[str]:
    """The columns of copies that hold bounds of keys."""
    pipeline = pipeline_of(place)
    return BOUNDS & {name for name, _ in pipeline.lake.fields(pipeline.table_path("copies", ITEMS)) or ()}


def test_bounds_of_copies_go_with_a_run_that_has_nothing_to_do(
    codes: Codes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = lake_of(codes, BASE, tmp_path)
    before = rows_alone(older)["snapshot.bank.items"]
    made_again(older, codes, tmp_path)
    assert bounds_of(older) == BOUNDS
    with monkeypatch.context() as patched:
        patched.setattr(kept_copies, "_keep_table", _refused)
        assert "stays as it is for now" in run(older).output
    assert bounds_of(older) == BOUNDS
    run(older)
    assert bounds_of(older) == set()
    assert rows_alone(older)["snapshot.bank.items"] == before
    assert [one.state for one in pipeline_of(older).ledger.copied_tables()] == [CopyState.COPIED]
    monkeypatch.setattr("dts_assets.flows.upkeep.keep_copies", _refused)  # one look is enough
    run(older)


def _refused(*_: object, **__: object) -> None:
    raise ValueError("a file that nobody can read")


def test_copies_that_a_removal_left_go_with_a_run_that_has_nothing_to_do(codes: Codes, tmp_path: Path) -> None:
    older = lake_of(codes, BASE, tmp_path)
    make_lake(codes.of(BASE), older.config, remove("bank", "items"), variables=ENVIRONMENT)
    assert "copies" in plain(older)
    done = CliRunner().invoke(cli, ["run", "--config", str(older.config)])
    assert done.exit_code == 0, done.output
    assert "copies" not in plain(older)


KEY = "the-key-of-a-person"
BOUNDED = {
    "dts_assets/flows/file_copies.py": (
        "kind, found.origin, [CopiedChunk(0, None, None)])",
        f"kind, found.origin, [CopiedChunk(0, '{KEY}', None)])",
    ),
}
"""A copy by chunks, as from a database: no test has a server for the base commit."""

GIVEN_UP = {
    **BOUNDED,
    "dts_assets/flows/copies.py": (
        "    return change(pipeline, copied.copy, whole)",
        "    give_up(pipeline, copied)\n    return change(pipeline, copied.copy, whole)",
    ),
}
"""A copy that a person cancels behind its last chunk."""


CANCELLED = "a note of the cancelled copy"


def layers_with(place: Place, mark: str) -> set[str]:
    """The layers of which a file, of any version, holds a text."""
    return {Path(name).parts[1] for name in plain_values(place.folder / "lake", [mark])}


def test_files_of_old_copies_go_with_a_run_that_has_nothing_to_do(
    codes: Codes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of chunks leave the ledger, and the rows of a copy that was given up leave the disk: nobody calls maintenance."""
    monkeypatch.setattr(expiry, "KEEP_FOR", timedelta(0))
    older, base = place_of(tmp_path), codes.of(BASE)
    rows = older.folder / "files" / "bank.items.csv"
    there = rows.read_text("utf-8")
    rows.write_text(f"id,n,note\n70,70,{CANCELLED}\n", "utf-8")
    given_up = edited(base, tmp_path / "given-up", GIVEN_UP)
    make_lake(given_up, older.config, *older.whole(), copy(), variables=ENVIRONMENT)
    rows.write_text(there, "utf-8")
    make_lake(edited(base, tmp_path / "bounded", BOUNDED), older.config, copy(), settle(), variables=ENVIRONMENT)
    made_again(older, codes, tmp_path)
    assert layers_with(older, CANCELLED) == {"copies"}
    assert "copied_tables" in layers_with(older, KEY)
    run(older)
    assert layers_with(older, CANCELLED) == set()
    assert "copied_tables" not in layers_with(older, KEY)


# Windows whose entries have left


def aged(codes: Codes, folder: Path, **settings: Any) -> Place:
    """A lake of the base commit whose oldest windows have lost their entries."""
    days = Days()
    values = {
        "format": "dts-protobuf", "partitions": LANES, "message_retention": AGES,
        "window": {"every": "12h", "start": START.isoformat()}, **settings,
    }  # fmt: skip
    pieces = [days.of_day(day) for day in range(DAYS)]
    case = Case((tuple(chain(*pieces[:-2])), tuple(chain(*pieces[-2:]))), values)
    place = placed(case, folder / "lake", written(case, folder / "pieces"))
    steps: list[Step] = [one for piece in place.pieces for one in (add(piece, place.capture), settle())]
    few = {"dts_assets/planning/message_retention.py": ("MESSAGES_KEPT = 2_048", "MESSAGES_KEPT = 5")}
    made = make_lake(edited(codes.of(BASE), folder / "code", few), place.config, *steps, variables=ENVIRONMENT)
    assert made.code_version != CODE_VERSION
    return place


def said(place: Place) -> list[str]:
    """The lines of the typed command that name windows; one of the topic cannot be decoded, so it ends with 3."""
    done = CliRunner().invoke(cli, ["run", "--config", str(place.config)], env={"COLUMNS": "200"})
    assert done.exit_code in (0, 3), done.output
    return [line for line in done.output.splitlines() if "stay as " in line]


def test_windows_that_cannot_be_made_again_are_named_once(
    codes: Codes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = aged(codes, tmp_path)
    with monkeypatch.context() as patched:  # it is stopped before it notes that it has said it
        patched.setattr("dts_assets.store.lake.Lake.remember", _refused)
        CliRunner().invoke(cli, ["run", "--config", str(older.config)])
    assert said(older) == [
        "subscription: 3 windows, 2026-03-01-00:00 to 2026-03-02-00:00, stay as code version 5 (now 7) made them: retention has "
        "removed entries that they would be made from. Tables that are wrong by it are copied anew by "
        "dts-assets resync subscription bank.items. This is said once."
    ]
    assert said(older) == []


def test_other_settings_are_named_with_the_command_for_rules(codes: Codes, tmp_path: Path) -> None:
    rule = {"tokenize": {"key": "${TESTS_ROW_KEY}", "pattern": "^x", "keep_last": 1}}
    older = aged(codes, tmp_path, columns={"bank.items.note": rule})
    made = make_lake(codes.present, older.config, settle(), variables=ENVIRONMENT)
    (line,) = said(older)
    assert made.lakes[0].lines.count(line) == 1  # the log of the run has it, too
    assert "stay as code version 5 (now 7) and other settings made them" in line
    assert "; dts-assets rules apply subscription lets plain values pass their rules." in line
    assert said(older) == []
