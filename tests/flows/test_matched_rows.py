"""A table without a key whose changes send a part of their rows, through all flows and in any order of windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.errors.windows import NotReadyError
from dts_assets.flows import ambiguous_changes, snapshot_jobs, snapshots
from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.flows.moments import tables_at
from dts_assets.flows.plain_values import replace_plain_values
from dts_assets.flows.redrive import Quarantined, redrive
from dts_assets.flows.snapshot_files import HeldRows
from dts_assets.flows.snapshot_tasks import write_share
from dts_assets.model.problems import Completeness, ProblemCode, Reason
from dts_assets.planning.source_moments import AtWindow
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Dml, Source
from tests.flows.source_tables import ABSENT, INT, TEXT, Field, Row, Table
from tests.tiers import chosen, times

ORDERS = [(0, 1, 2), (2, 1, 0), (0, 2, 1, 1, 0, 2), (1, 2, 0, 1)]
NAME = f"{DATABASE}.journal"


def line(text: object, number: object = ABSENT, note: object = ABSENT) -> Row:
    """A row of which some columns may not be sent."""
    return {"line": text, "n": number, "note": note}


Pairs = list[tuple[Row | None, Row | None]]

FIRST: Pairs = [
    (None, line("a", 1, "x")), (None, line("b", 2, "y")), (None, line("c", 3, "z")), (None, line("c", 3, "z")),
    (None, line("d", 4, None)), (line("a"), line(ABSENT, 10)),
]  # fmt: skip
SECOND_ONE: Pairs = [
    (line("c"), None), (None, line("c", 5, "w")), (line("c"), line(ABSENT, 6)), (line("b"), line("e")),
]  # fmt: skip
THIRD: Pairs = [
    (line("c", 3), None), (line("e"), line(ABSENT, ABSENT, "q")), (line("d"), None), (None, line("g", 1, None)),
    (None, line("g", 2, None)), (line("g"), None), (line("never"), None),
]  # fmt: skip
EXPECTED = Counter({("a", 10, "x"): 1, ("c", 5, "w"): 1, ("e", 2, "q"): 1, ("g", 1, None): 1, ("g", 2, None): 1})
LEVELS = [Completeness.PROVEN, Completeness.INCOMPLETE, Completeness.INCOMPLETE]


def journal(windows: Sequence[Pairs] = (FIRST, SECOND_ONE, THIRD)) -> Source:
    source = short_source(Table("journal", [Field("line", TEXT), Field("n", INT), Field("note", TEXT)]))
    for number, pairs in enumerate(windows):
        for place, pair in enumerate(pairs):
            if pair[0] is not None:
                source.bags["journal"].append(pair[0])  # the emulated source takes rows away whole
            source.transaction(border(number) + (1 + place) * SECOND, Dml(source.tables["journal"], [pair]))
        source.checkpoint(border(number) + 300 * SECOND)
    return source


def opened(folder: Path, name: str = "bag", **settings: Any) -> Harness:
    harness = open_short(bench_in_process(folder, name), folder / "capture", journal().messages, **settings)
    harness.raw()
    harness.entries()
    return harness


def held(rows: list[dict[str, Any]]) -> Counter[tuple[object, ...]]:
    return Counter((row["line"], row["n"], row["note"]) for row in rows)


def snapshot(harness: Harness) -> Counter[tuple[object, ...]]:
    return held(harness.rows("snapshot", DATABASE, "journal"))


def quarantine(harness: Harness) -> list[tuple[object, ...]]:
    rows = harness.pipeline.ledger.quarantine()
    return [
        (row.stage, row.reason, row.table, harness.pipeline.grid.of_start(row.window_start).start.hour) for row in rows
    ]


def levels(harness: Harness) -> list[Completeness]:
    return [row.completeness for row in sorted(harness.pipeline.ledger.cuts(), key=lambda row: row.window)]


@pytest.mark.more(after=1)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("order", chosen(ORDERS, 2))
def test_the_columns_that_were_sent_find_the_row_in_any_order(
    order: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    if shared:
        monkeypatch.setattr(snapshot_jobs.Merge, "is_small", False)
        monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", 2)
    harness = opened(tmp_path, history=["*"])
    for number in order:
        harness.tables(number)
    harness.settle()
    assert find_work(harness.pipeline).nothing
    assert snapshot(harness) == EXPECTED
    found = quarantine(harness)
    assert [one[:3] for one in found] == [("snapshot", Reason.AMBIGUOUS, NAME)] * 2
    assert levels(harness) == LEVELS
    assert [one.complete for one in judge_ledger(harness.pipeline) if "p" not in one.partition[:1]] == [
        True,
        False,
        False,
    ]
    details = [row.detail for row in harness.pipeline.ledger.quarantine()]
    assert [one.split(" at ")[0] for one in details] == [
        f"{NAME}: several rows that differ have the columns that the {name}" for name in ("UPDATE", "DELETE")
    ]
    versions = [row for row in harness.rows("history", DATABASE, "journal") if row["_valid_to"] is None]
    assert held(versions) == EXPECTED


def test_a_window_that_came_late_makes_later_ones_incomplete(tmp_path: Path) -> None:
    """The snapshot waits for the first window: only with it is known what the changes of the others mean."""
    harness = opened(tmp_path)
    harness.tables(1)
    harness.tables(2)
    assert levels(harness) == [Completeness.PROVEN] * 2
    harness.tables(0)
    assert levels(harness) == LEVELS, "at once, and not with the next run"
    problems = [
        one.detail
        for row in harness.pipeline.ledger.cuts()
        for one in row.problems
        if one.code is ProblemCode.QUARANTINED
    ]
    assert problems == ["1 changes may mean several rows of a table without a key: see quarantine, stage snapshot"] * 2
    assert len(find_work(harness.pipeline).tables) == 2
    harness.settle()
    assert (levels(harness), find_work(harness.pipeline).nothing) == (LEVELS, True)


def dies(*_: object) -> None:
    raise KeyboardInterrupt


def details(harness: Harness) -> list[str]:
    return [row.detail for row in harness.pipeline.ledger.quarantine()]


@pytest.mark.more
def test_an_interruption_before_the_quarantine_heals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, harness = opened(tmp_path / "whole"), opened(tmp_path / "broken")
    whole.tables(0, 1, 2)
    harness.tables(0)

    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "write_ambiguous", dies)
        with pytest.raises(KeyboardInterrupt):
            harness.tables(1)
    assert not quarantine(harness)
    harness.settle()
    assert (quarantine(harness), snapshot(harness), levels(harness)) == (quarantine(whole), EXPECTED, LEVELS)


BEFORE_A_RULE: list[Pairs] = [
    [(None, line("c", 3, "k")), (None, line("c", 3, "l")), (None, line("p", 1, "x")), (None, line("q", 2, "y"))],
    [(line("c"), line(ABSENT, 10))],
    [(line(ABSENT, ABSENT, "x"), None)],
    [(None, line("new", 1, "n"))],
]
"""The second window has an ambiguous change. With masked notes it is the third one that has."""


@pytest.mark.more
def test_an_interruption_before_as_many_other_changes_are_in_quarantine_heals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(folder: Path) -> Harness:
        source = journal(BEFORE_A_RULE)
        before = open_short(bench_in_process(folder, "bag"), folder / "capture", source.messages, windows=4)
        before.raw(0, 1, 2, 3)
        before.entries(0, 1, 2, 3)
        before.tables(0, 1, 2)
        assert [one.split(" at ")[0][-6:] for one in details(before)] == ["UPDATE"]
        masked = {f"{NAME}.note": {"mask": "***"}}
        return open_short(
            bench_in_process(folder, "bag"), folder / "capture", source.messages, windows=4, columns=masked
        )

    def apply(harness: Harness) -> None:
        replace_plain_values(harness.pipeline, spark=lambda: harness.session, progress=harness.lines.append)

    whole, harness = started(tmp_path / "whole"), started(tmp_path / "broken")
    apply(whole)
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "write_ambiguous", dies)
        with pytest.raises(KeyboardInterrupt):
            apply(harness)
    apply(harness)
    for one in (whole, harness):
        one.tables(3)
        assert [one.split(" at ")[0][-6:] for one in details(one)] == ["DELETE"]
    assert (quarantine(harness), snapshot(harness), levels(harness)) == (
        quarantine(whole),
        snapshot(whole),
        levels(whole),
    )


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(2, 12)))
def test_work_in_any_pieces_and_a_redrive_end_alike(seed: int, tmp_path: Path) -> None:
    harness = open_short(bench_in_process(tmp_path, "bag"), tmp_path / "capture", journal().messages, history=["*"])
    random, steps = Random(seed), list[Callable[..., object]]([harness.raw, harness.entries, harness.tables])
    for _ in range(12):
        first, last = sorted(random.choices(range(3), k=2))
        with suppress(NotReadyError):
            random.choice(steps)(*range(first, last + 1))
    harness.settle()
    found = quarantine(harness)
    assert (snapshot(harness), levels(harness), len(found)) == (EXPECTED, LEVELS, 2)
    redrive(harness.pipeline, Quarantined(), spark=lambda: harness.session, progress=harness.lines.append)
    assert (snapshot(harness), levels(harness), quarantine(harness)) == (EXPECTED, LEVELS, found)
    assert find_work(harness.pipeline).nothing


@pytest.mark.more
def test_moments_have_the_rows_that_the_snapshot_had(tmp_path: Path) -> None:
    harness, shown = opened(tmp_path), []
    for number in range(3):
        harness.tables(number)
        shown.append(snapshot(harness))
    before = quarantine(harness)
    for number, rows in enumerate(shown):
        at = AtWindow(harness.pipeline.grid.at(number).start)
        made = tables_at(harness.pipeline, at, tmp_path / f"moment {number}")
        (table,) = made.tables.values()
        assert held(table.scan().to_arrow().to_pylist()) == rows
    assert quarantine(harness) == before


@pytest.mark.more
def test_deleted_rows_that_stay_are_those_that_were_meant(tmp_path: Path) -> None:
    harness = opened(tmp_path, deletes="soft")
    for number in range(3):
        harness.tables(number)
    rows = harness.rows("snapshot", DATABASE, "journal")
    assert held([row for row in rows if row["_deleted_at"] is None]) == EXPECTED
    assert held([row for row in rows if row["_deleted_at"]]) == Counter({("c", 3, "z"): 2, ("d", 4, None): 1})


@pytest.mark.more
@pytest.mark.parametrize("names", [("line", "n", "note"), ("note", "n", "line")])
def test_files_without_a_row_that_may_be_meant_are_not_read(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come in one window for each letter, so that each file has one letter; then a row is known by its line alone."""
    fields = {"line": Field("line", TEXT), "n": Field("n", INT), "note": Field("note", TEXT)}
    source = short_source(Table("journal", [fields[name] for name in names]))
    for number, letter in enumerate("abcd"):
        some = [(None, line(f"{letter}{n}", n, "x")) for n in range(20)]
        source.transaction(border(number) + SECOND, Dml(source.tables["journal"], some))
        source.checkpoint(border(number) + 300 * SECOND)
    row = line("c7")
    source.bags["journal"].append(row)
    source.transaction(border(4) + SECOND, Dml(source.tables["journal"], [(row, line(ABSENT, 99))]))
    source.checkpoint(border(4) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "bag"), tmp_path / "capture", source.messages, windows=5)
    for number in range(4):
        harness.all(number)
    read = set[str]()
    batches = HeldRows._batches

    def noted(self: HeldRows, *args: Any, **more: Any) -> Any:
        read.add(self.held.path)
        return batches(self, *args, **more)

    monkeypatch.setattr(HeldRows, "_batches", noted)
    harness.all(4)
    assert len(read) == 1, "only the file with c0 to c19"
    assert snapshot(harness)["c7", 99, "x"] == 1
    assert ambiguous_changes.noted_by_table(harness.pipeline) == {}


@pytest.mark.more
@pytest.mark.parametrize("old", [line("c7"), None], ids=["a part", "whole rows"])
def test_a_large_first_load_is_shared_out(old: Row | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows come into an empty table, and one of them is changed, which sends a part of it or nothing of an old row."""
    source = short_source(Table("journal", [Field("line", TEXT), Field("n", INT), Field("note", TEXT)]))
    some = [(None, line(f"c{n}", n, "x")) for n in range(40)]
    source.transaction(border(0) + SECOND, Dml(source.tables["journal"], some))
    if old is not None:
        source.bags["journal"].append(old)
        source.transaction(border(0) + 2 * SECOND, Dml(source.tables["journal"], [(old, line(ABSENT, 99))]))
    source.checkpoint(border(0) + 300 * SECOND)
    harness = open_short(bench_in_process(tmp_path, "bag"), tmp_path / "capture", source.messages, windows=1)
    written: list[int] = []

    def noted(merged: Any, pieces: Any, attempt: str) -> Any:
        result = write_share(merged, pieces, attempt)
        written.append(sum(file.rows for file in result.written))
        return result

    monkeypatch.setattr("dts_assets.flows.snapshot_merges.write_share", noted)
    monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", 10)
    harness.all(0)
    assert len([rows for rows in written if rows > 1]) >= 4
    assert sum(written) == 40
    assert snapshot(harness)["c7", 7 if old is None else 99, "x"] == 1
