"""The freshness of a subscription's snapshots in lines for a person."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from dts_assets.flows.pipeline import open_pipeline
from dts_assets.settings import Settings
from dts_emulator.live.freshness_meter import CommitLog, CutLog, freshness


def freshness_lines(settings: Settings, subscription: str, commits: Path, *, last: float | None) -> Iterator[str]:
    """Yield lines on the row changes of a commit log.

    ``last`` leaves out commits that are older than so many seconds.
    """
    now = time.time()
    cuts = CutLog(open_pipeline(settings, subscription)).read()
    begin = float("-inf") if last is None else now - last
    found = freshness(CommitLog(commits).read(), cuts, begin=begin)
    yield f"{found.rows:,} row changes committed, {found.visible:,} visible in the snapshots of {subscription}"
    for name, seconds in (("p50", found.p50), ("p95", found.p95), ("worst", found.worst)):
        yield f"{name:>5}  {'-' if seconds is None else f'{seconds:.1f} s'}"
    if found.since is not None:
        yield f"not visible yet: changes of the last {now - found.since:.0f} s"
