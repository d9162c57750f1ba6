"""One fault of the soak, and four minutes of all of them; ``make soak`` runs fifteen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.faults import FAULTS
from tests.live.soak import default_options, report, soak

pytestmark = [pytest.mark.spark, pytest.mark.database, pytest.mark.kafka, pytest.mark.e2e]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_one_fault_is_got_over(tmp_path: Path) -> None:
    lines: list[str] = []
    faults = {name: FAULTS[name] for name in ("crash_emulator",)}
    options = replace(default_options(tmp_path / "live", seed=20), tables=3, ddl=False)
    found = soak(options, seconds=1, say=lines.append, faults=faults, between=(0, 1))
    assert not found.wrong, "\n".join([*lines, *report(found)])
    assert found.rows > 100
    assert set(found.faults) == set(faults)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_whatever_happens_the_snapshots_end_as_the_database(tmp_path: Path) -> None:
    lines: list[str] = []
    found = soak(default_options(tmp_path / "live", seed=20), seconds=240, say=lines.append, between=(1, 5))
    assert not found.wrong, "\n".join([*lines, *report(found)])
    assert found.rows > 10_000
    assert set(found.faults) == set(FAULTS), "each has taken effect"
    assert found.looks > 1
    assert found.redelivered > 0
