"""The guard finds what it is for: planted changes of rows, of inputs and of states, and a raised ``CODE_VERSION``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.versions.base import BASE
from tests.versions.captures import CASES
from tests.versions.guard import Begun, Guarded, begin, end
from tests.versions.made_by import NOTHING, Codes, edited

pytestmark = pytest.mark.more

CASE = "drs-json-c"

Edits = Mapping[str, tuple[str, str]]

ROWS: Edits = {
    "dts_assets/stages/row_hash.py": ("0xD6E8FEB86659FD93", "0xD6E8FEB86659FD95"),
    "dts_assets/wire/flat_json/rows.py": ('"update", "delete", "read"]', '"update", "delete", "insert"]'),
}
INPUTS: Edits = {
    "dts_assets/flows/pipeline.py": ("entries_fingerprint.encode()", 'entries_fingerprint.encode("utf-16")')
}
STATES: Edits = {"dts_assets/stages/window_state.py": ("STATE_VERSION = 11", "STATE_VERSION = 12")}
VERSION: Edits = {"dts_assets/model/version.py": ('CODE_VERSION = "5"', 'CODE_VERSION = "another"')}


PLANTED: Mapping[str, Edits] = {"rows and inputs": {**ROWS, **INPUTS}, "states": STATES, "version": {**VERSION, **ROWS}}


@pytest.fixture(scope="module")
def begun(codes: Codes, tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A lake of the base for each plant."""
    return begin(BASE, codes.of(BASE), dict.fromkeys(PLANTED, CASES[CASE]()), tmp_path_factory.mktemp("lakes"))


def planted(name: str, begun: Begun, codes: Codes, folder: Path) -> Guarded:
    """The guard of the base and a copy of it with edits."""
    return end(begun, edited(codes.of(BASE), folder / "edited", PLANTED[name]), [name])


def test_rows_and_inputs_that_became_others_are_named(begun: Begun, codes: Codes, tmp_path: Path) -> None:
    faults = planted("rows and inputs", begun, codes, tmp_path).faults("rows and inputs")
    for table in ("changelog.bank.accounts", "window_tables"):
        said = f"The rows of {table} differ from those of commit {BASE}, and CODE_VERSION is the same: raise it in "
        assert [one for one in faults if one.startswith(said)], table
    assert not [one for one in faults if one.startswith("The rows of entries ")], "entries are as they were"
    assert [
        one for one in faults if one.startswith(f"The lake of commit {BASE} lacks nothing, and this code would make")
    ]


def test_a_state_that_the_other_code_cannot_read_is_named(begun: Begun, codes: Codes, tmp_path: Path) -> None:
    faults = planted("states", begun, codes, tmp_path).faults("states")
    assert [one for one in faults if one.startswith("The open window 10:10 of Kafka partition 0 was begun anew")], (
        faults
    )


def test_a_raised_version_is_noticed_and_the_lake_made_again_is_as_a_new_one(
    begun: Begun, codes: Codes, tmp_path: Path
) -> None:
    found = planted("version", begun, codes, tmp_path)
    assert found.versions[1] == "another"
    assert not found.is_equal_version
    assert found.faults("version") == []
    _, after_reading, settled = found.answers[found.lakes["version"].older.folder]
    assert after_reading.entries
    assert settled == NOTHING
