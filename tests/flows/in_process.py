"""Flows without a JVM: subscriptions whose tasks run in this process, one after the other."""

from __future__ import annotations

from pathlib import Path

from dts_assets.flows.this_process import Frame, ThisProcess, this_process
from dts_assets.store.catalog import LakeLocation
from tests.flows.harness import Bench

InProcess = ThisProcess

__all__ = ["Frame", "InProcess", "bench_in_process"]


def bench_in_process(folder: Path, prefix: str) -> Bench:
    """Return a maker of subscriptions in a lake of its own whose flows need no JVM."""
    return Bench(this_process(), LakeLocation(str(folder / "lake")), folder, prefix)
