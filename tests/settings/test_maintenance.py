"""Maintenance as it is written: what is taken, and what is refused with the way out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dts_assets.errors import ConfigErrors
from dts_assets.model.byte_sizes import exact_size
from dts_assets.model.maintenance import USUAL_STEPS, Step
from dts_assets.settings.load import load_settings
from dts_assets.settings.maintenance import Maintenance, bytes_of


def maintenance_of(tmp_path: Path, written: str) -> Maintenance:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "lake: {warehouse: ./lake}\n"
        "subscriptions:\n"
        "  shop:\n"
        "    format: dts-protobuf\n"
        "    source: {capture: ./capture}\n"
        "    partitions: 1\n"
        "    window: {every: 1h, start: '2026-01-05T00:00Z'}\n"
        f"    maintenance: {written}\n"
    )
    return load_settings(file, environment={}).subscriptions["shop"].maintenance


def test_without_keys_nothing_is_scheduled_and_little_goes(tmp_path: Path) -> None:
    found = maintenance_of(tmp_path, "{}")
    assert found == Maintenance()
    assert (found.schedule, found.expire_after, found.tags_after, found.tags_size) == (None,) * 4
    assert (found.steps, found.keep_versions, found.orphans_after) == (USUAL_STEPS, 100, timedelta(days=3))
    assert Step.SORTING not in found.steps


def test_all_keys(tmp_path: Path) -> None:
    found = maintenance_of(
        tmp_path,
        "{schedule: '15  4 * * 1-5', steps: [sorting, expiry], expire_after: 12h, keep_versions: 3, orphans_after: 1d, "
        "tags_after: 30d, tags_size: 2TB}",
    )
    assert found.schedule == "15 4 * * 1-5"
    assert found.steps == (Step.SORTING, Step.EXPIRY)
    assert (found.expire_after, found.keep_versions) == (timedelta(hours=12), 3)
    assert (found.orphans_after, found.tags_after) == (timedelta(days=1), timedelta(days=30))
    assert found.tags_size == 2 * 10**12


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{schedule: daily}", '"daily" is no schedule; write five fields of cron, in UTC'),
        (
            "{orphans_after: 23h}",
            '"23h" is less than a day, and a run may write files for long before it commits them; write 1d',
        ),
        ("{steps: [vacuum]}", "steps"),
        ("{steps: []}", "steps"),
        ("{keep_versions: 0}", "keep_versions"),
        ("{tags_size: 1 furlong}", "is no size"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, written: str, said: str) -> None:
    with pytest.raises(ConfigErrors) as found:
        maintenance_of(tmp_path, written)
    assert said in str(found.value)


@pytest.mark.parametrize("text", ["500GB", "1TB", "7B", "20MB", "0B"])
def test_a_size_is_written_as_it_is_read(text: str) -> None:
    assert bytes_of(exact_size(bytes_of(text))) == bytes_of(text)
