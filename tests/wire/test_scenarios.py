"""Every scenario folder of every format: the messages beside the entries and changes that they must become."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dts_assets.settings.formats import registered_formats
from tests.made_up_format.place import SITE_PACKAGES
from tests.wire.scenarios import DATA, Scenario, decoded, scenarios, sets_of

FOUND = scenarios()


@pytest.fixture(autouse=True)
def _with_the_made_up_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SITE_PACKAGES)


@pytest.mark.parametrize("spaced", [False, True], ids=["as sent", "spaced"])
@pytest.mark.parametrize("scenario", FOUND, ids=str)
def test_messages_become_what_stands_beside_them(scenario: Scenario, spaced: bool) -> None:
    found, expected = decoded(scenario, spaced=spaced), scenario.expected
    assert found.keys() == expected.keys()
    for part, value in expected.items():
        assert found[part] == value, part


@pytest.mark.more
@pytest.mark.parametrize("scenario", FOUND, ids=str)
def test_each_shape_has_the_row_of_its_first_event(scenario: Scenario) -> None:
    """The sets up to that row tell the shape, and those before it do not; both ways round, and all sets twice."""
    sets = sets_of(scenario)
    for some in (sets, sets[::-1], pa.concat_arrays([sets, sets])):
        found = scenario.format.entries(some)
        for shape, row in found.shapes.items():
            entry = found.batch.slice(row, 1).to_pylist()[0]
            assert (entry["message_type"], entry["table"]) == ("DML", shape.table.table)
            assert shape not in scenario.format.entries(some[: entry["set_index"]]).shapes
            assert shape in scenario.format.entries(some[: entry["set_index"] + 1]).shapes


def test_every_format_has_scenarios_and_every_folder_is_a_format() -> None:
    assert {one.name for one in DATA.iterdir() if one.is_dir()} == set(registered_formats())
    assert {one.folder.parent.name for one in FOUND} == set(registered_formats())
    assert len(FOUND) == len([one for one in DATA.glob("*/*") if one.is_dir()])
