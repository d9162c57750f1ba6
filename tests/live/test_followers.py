"""Readers that follow changelogs beside a live pipeline for two minutes; ``make soak FOLLOWED=3600`` lets them for an hour."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.followers import live_with_followers, report
from tests.live.soak import default_options

pytestmark = [pytest.mark.spark, pytest.mark.database, pytest.mark.kafka, pytest.mark.e2e]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_copies_of_live_changelogs_have_their_rows(tmp_path: Path) -> None:
    lines: list[str] = []
    options = replace(default_options(tmp_path / "live", seed=31), tables=4)
    followed = live_with_followers(options, seconds=150, say=lines.append)
    assert not followed.wrong, "\n".join([*lines, *report(followed)])
    assert followed.rows > 5_000
    assert all(followed.replaced.values()), report(followed)
