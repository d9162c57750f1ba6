"""Lakes of the base commit under the present code: equal rows and nothing stale, unless ``CODE_VERSION`` is another one."""

from __future__ import annotations

import pytest

from tests.versions.base import BASE
from tests.versions.captures import CASES
from tests.versions.guard import Guarded, begin, end, refreshes
from tests.versions.lakes import rows_of, tables_with_rows
from tests.versions.made_by import Codes

pytestmark = pytest.mark.more

SYSTEM = (
    "raw_envelopes", "raw_windows", "entries", "windows", "quarantine", "redeliveries", "comparisons", "lineages", "ddl",
    "table_shapes", "window_tables", "cuts", "settled_days",
)  # fmt: skip
LAYERS = ("changelog", "snapshot", "history", "sql")


@pytest.fixture(scope="module")
def both(codes: Codes, tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    cases = {name: make() for name, make in CASES.items()}
    return end(begin(BASE, codes.of(BASE), cases, tmp_path_factory.mktemp("lakes")), codes.present)


@pytest.mark.parametrize("name", CASES)
def test_the_present_code_makes_what_the_base_makes_and_continues_its_lakes(name: str, both: Guarded) -> None:
    assert not (faults := both.faults(name)), "\n".join(faults)


def test_the_lakes_have_rows_in_every_system_table_and_layer(both: Guarded) -> None:
    found = {name for lakes in both.lakes.values() for name in tables_with_rows(lakes.older)}
    assert {*SYSTEM} <= found
    assert {*LAYERS} <= {name.partition(".")[0] for name in found}


def test_open_windows_were_left_with_a_state_and_continued(both: Guarded) -> None:
    live = [lakes for lakes in both.lakes.values() if lakes.continued is not None]
    assert len(live) > 3
    for lakes in live:
        left = [row for row in rows_of(lakes.older, "windows") if row["closed_by"] == "open"]
        assert left, f"{lakes.name}: no window is open in the end"
        if both.is_equal_version:
            assert any(row["resume"] for row in left), lakes.name
            continued = [len(runs) for runs in refreshes(lakes.older).values()]
            assert max(continued) > 1, f"{lakes.name}: the second piece goes on with no window of the first"
