"""Copies that were cancelled leave the disk, by maintenance and by runs alone."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dts_assets.flows.copied_rules import rules_to_pass
from dts_assets.flows.copies import cancel_copies, unfinished
from dts_assets.flows.find_work import find_work
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.this_process import this_process
from dts_assets.model.copied_tables import CopyState
from dts_assets.model.maintenance import Step
from dts_assets.store import expiry
from tests.flows.copied import copy_rows
from tests.flows.harness import Bench
from tests.flows.in_process import bench_in_process
from tests.flows.test_ruled_copies import COLUMNS, ITEMS, ROWS, TABLE, opened, plain_files, source_of


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "cancelled")


def test_a_cancelled_copy_leaves_the_disk(bench: Bench) -> None:
    source, _ = source_of()
    harness = opened(bench, source)
    copy_rows(harness, TABLE, [source_of()[1]], finished=False)
    assert plain_files(harness) == {"copies"}
    (given_up,) = cancel_copies(harness.pipeline, [ITEMS])
    assert harness.rows("copies", "bank", "items") == []
    harness.settle()
    reports = maintain(
        harness.pipeline,
        only=[Step.EXPIRY],
        spark=this_process,
        progress=harness.lines.append,
        now=datetime.now(UTC) + timedelta(days=3),
    )
    assert [one.failed for one in reports] == [()]
    assert "copies" not in plain_files(harness)
    (one,) = harness.pipeline.ledger.copied_tables()
    assert (one.copy, one.state) == (given_up.copy, CopyState.CANCELLED)
    assert not one.is_bounded
    assert find_work(harness.pipeline).nothing
    assert re.fullmatch("[0-9a-f]{12}", one.copy)


@pytest.mark.more
def test_a_copy_goes_on_under_its_own_rules_alone(bench: Bench) -> None:
    """Its chunks that were written have passed other rules, or another filter, than those to come would."""
    source, read = source_of()
    harness = opened(bench, source, columns=COLUMNS, rows=ROWS)
    pipeline = harness.pipeline
    one = copy_rows(harness, TABLE, [read], finished=False)
    rules = rules_to_pass(pipeline, ITEMS, one.columns)
    assert unfinished(pipeline, ITEMS, one.columns, one.kind, one.origin, rules) == one
    assert unfinished(pipeline, ITEMS, one.columns, one.kind, one.origin, replace(rules, passed_filter=None)) is None
    other = copy_rows(harness, TABLE, [read], finished=False)
    assert (
        unfinished(pipeline, ITEMS, one.columns, one.kind, one.origin, replace(rules, passed=rules.passed[1:])) is None
    )
    assert {one.copy: one.state for one in pipeline.ledger.copied_tables()} == {
        one.copy: CopyState.CANCELLED,
        other.copy: CopyState.CANCELLED,
    }
    assert harness.rows("copies", "bank", "items") == []


@pytest.mark.more
def test_runs_alone_let_rows_and_bounds_of_a_cancelled_copy_expire(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to call for maintenance."""
    monkeypatch.setattr(expiry, "KEEP_FOR", timedelta(0))
    source, read = source_of()
    harness = opened(bench, source)
    one = copy_rows(harness, TABLE, [read], finished=False)
    chunks = tuple(replace(chunk, key_from="plain-key") for chunk in one.chunks)
    harness.pipeline.ledger.change_copied_tables(lambda rows: [replace(row, chunks=chunks) for row in rows])
    assert {"copies", "copied_tables"} <= plain_files(harness)
    cancel_copies(harness.pipeline, [ITEMS])
    harness.settle()
    assert {"copies", "copied_tables"}.isdisjoint(plain_files(harness))
