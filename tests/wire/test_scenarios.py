"""Every scenario folder of every format: the messages beside the entries and changes that they must become."""

from __future__ import annotations

import pytest

from dts_assets.settings.formats import registered_formats
from tests.made_up_format.place import SITE_PACKAGES
from tests.wire.scenarios import DATA, Scenario, decoded, scenarios

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


def test_every_format_has_scenarios_and_every_folder_is_a_format() -> None:
    assert {one.name for one in DATA.iterdir() if one.is_dir()} == set(registered_formats())
    assert {one.folder.parent.name for one in FOUND} == set(registered_formats())
    assert len(FOUND) == len([one for one in DATA.glob("*/*") if one.is_dir()])
