"""The ages of messages and entries as they are written: which are taken, and which are refused with the way out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dts_assets.errors import ConfigErrors
from dts_assets.model.message_retention import MessageAges
from dts_assets.settings.load import load_settings

DAY = timedelta(days=1)


def ages_of(tmp_path: Path, written: str, wire: str = "dts-protobuf") -> MessageAges:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "lake: {warehouse: ./lake}\n"
        "subscriptions:\n"
        "  shop:\n"
        f"    format: {wire}\n"
        "    source: {capture: ./capture}\n"
        "    partitions: 1\n"
        "    window: {every: 1h, start: '2026-01-05T00:00Z'}\n"
        f"{written}\n"
    )
    return load_settings(file, environment={}).subscriptions["shop"].message_ages


@pytest.mark.parametrize(
    ("written", "raw", "entries"),
    [
        ("", None, None),
        ("    message_retention: {}", None, None),
        ("    message_retention: {raw: 14d}", 14 * DAY, None),
        ("    message_retention: {raw: 36h, entries: 36h}", 1.5 * DAY, 1.5 * DAY),
        ("    message_retention: {entries: 30d, raw: 1d}", DAY, 30 * DAY),
    ],
)
def test_nothing_is_removed_unless_asked_for(
    tmp_path: Path, written: str, raw: timedelta | None, entries: timedelta | None
) -> None:
    assert ages_of(tmp_path, written) == MessageAges(raw, entries)


@pytest.mark.parametrize(
    ("written", "sizes"),
    [
        ("{raw_size: 500GB}", (500 * 10**9, None)),
        ("{raw_size: 1234, entries_size: 20 mb}", (1234, 20 * 10**6)),
        ("{raw: 14d, entries_size: 1TB}", (None, 10**12)),
    ],
)
def test_sizes_are_bytes(tmp_path: Path, written: str, sizes: tuple[int | None, int | None]) -> None:
    found = ages_of(tmp_path, f"    message_retention: {written}")
    assert (found.raw_bytes, found.entries_bytes) == sizes
    assert found.any


@pytest.mark.parametrize(
    ("written", "wire", "said"),
    [
        (
            "{raw: 23h}",
            "dts-protobuf",
            '"23h" is less than a day, and rows are removed by whole days; write 1d or more',
        ),
        ("{raw: soon}", "dts-protobuf", "soon"),
        ("{raw_size: much}", "dts-protobuf", '"much" is no size; write a whole number and a unit: 500MB, 20GB or 1TB'),
        ("{raw_size: -1}", "dts-protobuf", "is no size"),
        ("{entries_size: 1GB}", "dts-protobuf", "entries are removed only where messages are removed, too"),
        ("{raw: 1d, entries_size: 1GB}", "drs-json", "entries of drs-json cannot be removed"),
        (
            "{entries: 14d}",
            "dts-protobuf",
            "entries are removed only where messages are removed, too; add raw: with an age",
        ),
        (
            "{raw: 14d, entries: 13d}",
            "dts-protobuf",
            '"13d" is less than the age of raw; write at least the age of raw',
        ),
        ("{raw: 14d, entries: 14d}", "drs-json", "messages are compared with all entries before; leave out the key"),
        ("{raw: 14d, rows: 14d}", "dts-protobuf", "rows"),
    ],
)
def test_ages_that_do_not_fit_are_refused_with_the_way_out(tmp_path: Path, written: str, wire: str, said: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        ages_of(tmp_path, f"    message_retention: {written}", wire)
    (mistake,) = caught.value.mistakes
    assert said in str(mistake)
    assert mistake.line == 8


def test_messages_with_ids_may_leave_while_entries_stay(tmp_path: Path) -> None:
    assert ages_of(tmp_path, "    message_retention: {raw: 14d}", "drs-json") == MessageAges(14 * DAY, None)
