"""Nothing twice: what a stream tells again is found, wherever windows are cut, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.lineages import LineageRule
from dts_assets.model.runs import Run
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.planning.suspicions import find_suspicions
from dts_assets.planning.topic_lineages import Lineages, find_lineages
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.entry_lineages import entry_lineages
from dts_assets.stages.redelivered_entries import find_redelivered, relevant
from dts_assets.stages.run_tracker import RunTracker
from tests.ledger_rows import ingest_row
from tests.stages.streams import EPOCH, Delivered, Stream, batches, stored, streams
from tests.tiers import examples


def window(number: int) -> Window:
    start = EPOCH + timedelta(hours=number)
    return Window(start, start + timedelta(hours=1))


def cut(delivered: Iterable[Delivered], borders: Sequence[int]) -> dict[Cell, list[Delivered]]:
    """What was delivered, by Kafka partition and window; windows begin at some ticks."""
    cells: dict[Cell, list[Delivered]] = {}
    for one in delivered:
        number = sum(border <= one.tick for border in borders)
        cells.setdefault(Cell(one.partition, window(number)), []).append(one)
    return cells


def runs_of(delivered: Sequence[Delivered], *, chunk: int) -> tuple[Run, ...]:
    """The runs of a cell that is decoded in batches of ``chunk`` entries."""
    tracker = RunTracker()
    rows = sorted(delivered, key=lambda one: one.place)
    for start in range(0, len(rows), chunk):
        entries, sets = batches(rows[start : start + chunk])
        tracker.see(EntryColumns.of(entries, sets))
    return tracker.runs()


def kept_of(
    cells: dict[Cell, list[Delivered]], lineages: Lineages, gtids: bool, runs: dict[Cell, IngestWindow]
) -> list[tuple[tuple[int, ...], Delivered]]:
    """The DML entries that are kept, each with its order (lineage, file, position), as a tables run finds them."""
    suspicions = find_suspicions(runs.values(), lineages)
    kept: list[tuple[tuple[int, ...], Delivered]] = []
    for cell, delivered in cells.items():
        own = stored(delivered)
        rules: dict[str, LineageRule] = {"": lineages.rule(cell.kafka_partition, "")}
        dropped: set[tuple[int, int]] = set()
        if (suspicion := suspicions.get(cell)) is not None:
            begins = pa.array([], pa.string()) if suspicion.by_gtid else None

            def rows(table: pa.Table, begins: pa.Array | None = begins) -> pa.Table:
                return pa.Table.from_batches(
                    [relevant(one, positions=None, gtids=begins) for one in table.to_batches()], table.schema
                )

            earlier = [rows(stored(cells[one])) for one in suspicion.earlier]
            found = find_redelivered(earlier, rows(own), rules, trust_gtids=gtids, by_gtid=suspicion.by_gtid)
            dropped = set(zip(found["last_offset"].to_pylist(), found["entry_number"].to_pylist(), strict=True))
        numbers = entry_lineages(own.combine_chunks().to_batches()[0], rules)
        for one, lineage in zip(sorted(delivered, key=lambda each: each.place), numbers.tolist(), strict=True):
            if one.event.kind == "DML" and one.place not in dropped:
                kept.append(((lineage, one.file, one.position), one))
    return kept


def check(stream: Stream, borders: Sequence[int], chunk: int, *, lineages_expected: int | None = None) -> None:
    cells = cut(stream.delivered, borders)
    runs = {cell: ingest_row(cell, runs=runs_of(delivered, chunk=chunk)) for cell, delivered in cells.items()}
    lineages = find_lineages(runs.values(), trust_gtids=stream.gtids)
    if lineages_expected is not None:
        assert len(lineages.all) == lineages_expected
    kept = kept_of(cells, lineages, stream.gtids, runs)
    sent = [event.identity for transaction in stream.truth for event in transaction if event.kind == "DML"]
    assert sorted(one.event.identity for _, one in kept) == sent
    first: dict[tuple[tuple[int, int], int], int] = {}
    for one in stream.delivered:
        first.setdefault((one.event.identity, one.partition), one.offset)
    assert all(one.offset == first[one.event.identity, one.partition] for _, one in kept), "the earliest copy is kept"
    for partition in range(stream.partitions):
        mine = [one.event.identity for _, one in sorted(kept, key=lambda pair: pair[0]) if one.partition == partition]
        assert mine == sorted(mine), "positions order changes as they were committed"
    if stream.partitions == 1 or len(lineages.all) == 1:
        assert not lineages.doubts
    # Runs know nothing of the windows before theirs, so that Kafka partitions may see breaks at different transactions.
    if stream.broadcast and not lineages.doubts:
        assert [one.event.identity for _, one in sorted(kept, key=lambda pair: pair[0])] == sent


BORDERS = st.lists(st.integers(1, 80), max_size=5).map(sorted)


@examples(150)
@given(streams(gtids=True, failovers=False), BORDERS, st.integers(1, 9))
def test_after_restarts_every_change_is_kept_once(stream: Stream, borders: list[int], chunk: int) -> None:
    check(stream, borders, chunk, lineages_expected=1)


@examples(150)
@given(streams(gtids=False, failovers=False), BORDERS, st.integers(1, 9))
def test_after_restarts_without_gtids_every_change_is_kept_once(stream: Stream, borders: list[int], chunk: int) -> None:
    check(stream, borders, chunk, lineages_expected=1)


@examples(150)
@given(streams(gtids=False, failovers=False, broadcast=False), BORDERS, st.integers(1, 9))
def test_where_marks_go_to_some_partitions_only(stream: Stream, borders: list[int], chunk: int) -> None:
    check(stream, borders, chunk, lineages_expected=1)


@pytest.mark.more
@examples(300)
@given(streams(gtids=True, failovers=True), BORDERS, st.integers(1, 9))
def test_after_failovers_every_change_is_kept_once_and_in_order(stream: Stream, borders: list[int], chunk: int) -> None:
    check(stream, borders, chunk)
