"""A table without a key through all flows: its snapshot is the source's own multiset, in any order of windows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.model.added_columns import AUDIT
from dts_assets.model.removals import NotRemoved
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Dml, Source
from tests.flows.source_tables import ABSENT, INT, TEXT, Field, Row, Table
from tests.tiers import chosen

ORDERS = [(0, 2, 1, 1, 0, 2), (2, 1, 0), (1, 2, 0, 1), (0, 1, 2)]


def journal() -> Table:
    return Table("journal", [Field("line", TEXT), Field("n", INT)])


def line(text: object, number: object = 1) -> Row:
    return {"line": text, "n": number}


def three_windows() -> Source:
    """Equal rows come and go in three windows; one value does not fit, one removal is of a row that never was."""
    source = short_source(journal())
    source.bags["journal"].append(line("never"))  # from before the subscription
    windows: list[list[tuple[Row | None, Row | None]]] = [
        [(None, line("a")), (None, line("a")), (None, line("a")), (None, line(None)), (None, line("x", "many"))],
        [
            (line("a"), None),
            (line("a"), line("b")),
            (None, line(None)),
            (None, line("x", "more")),
            (line("never"), None),
        ],
        [(line("b"), line("a")), (line(None), None), (line("x", "many"), line("x", "many")), (None, line("b"))],
    ]
    for number, pairs in enumerate(windows):
        for place, pair in enumerate(pairs):
            source.transaction(border(number) + (1 + place) * SECOND, Dml(source.tables["journal"], [pair]))
        source.checkpoint(border(number) + 300 * SECOND)
    return source


EXPECTED = Counter({("a", 1): 2, (None, 1): 1, ("x", "many"): 1, ("x", "more"): 1, ("b", 1): 1})


def held(harness: Harness) -> Counter[tuple[object, object]]:
    rows = harness.rows("snapshot", DATABASE, "journal")
    return Counter((row["line"], dict(row["_invalid"] or ()).get("n", row["n"])) for row in rows)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("order", chosen(ORDERS, 2))
def test_a_bag_is_the_sources_own(
    order: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    if shared:
        monkeypatch.setattr(snapshot_jobs.Merge, "is_small", False)
        monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", 2)
    harness = open_short(bench_in_process(tmp_path, "bag"), tmp_path / "capture", three_windows().messages)
    harness.raw()
    harness.entries()
    for number in order:
        report = harness.tables(number)
        (table,) = report.tables
        assert table.layers["snapshot"].not_removed is not None
    assert held(harness) == EXPECTED
    first = harness.rows("snapshot", DATABASE, "journal")
    harness.tables(1)
    again = harness.rows("snapshot", DATABASE, "journal")
    assert sorted(map(str, again)) == sorted(map(str, first)), "a window made again changes no row"


def test_a_removal_of_a_row_that_never_was_is_counted(tmp_path: Path) -> None:
    harness = open_short(bench_in_process(tmp_path, "bag"), tmp_path / "capture", three_windows().messages)
    harness.raw()
    harness.entries()
    found = [harness.tables(number).tables[0].layers["snapshot"].not_removed for number in range(3)]
    assert found == [NotRemoved(), NotRemoved(unmatched=1), NotRemoved()]


def test_a_change_finds_its_row_by_what_it_tells(tmp_path: Path) -> None:
    """A server that sends few columns deletes and updates rows by ``line`` alone."""
    source = short_source(journal())
    pairs: list[tuple[Row | None, Row | None]] = [
        (None, line("a", 1)), (None, line("a", 2)), (None, line("b", 3)), (None, line(None, 4)),
        (line("a", ABSENT), None), (line("b", ABSENT), line("c", ABSENT)), (line(ABSENT, 4), None),
        (line("b", ABSENT), line("d", 3)), (line("a", 2), line("e", ABSENT)),
    ]  # fmt: skip
    for place, pair in enumerate(pairs):
        if pair[0] is not None:
            source.bags["journal"].append(pair[0])
        source.transaction(border(0) + (1 + place) * SECOND, Dml(source.tables["journal"], [pair]))
    source.checkpoint(border(0) + 300 * SECOND)
    asked = {"history": ["*"], "deletes": "soft", "audit_columns": list(AUDIT)}
    harness = open_short(bench_in_process(tmp_path, "bag"), tmp_path / "capture", source.messages, windows=1, **asked)
    harness.raw(0)
    harness.entries(0)
    (report,) = harness.tables(0).tables
    counts = NotRemoved(unmatched=1, ambiguous=1)
    assert report.layers["snapshot"].not_removed == report.layers["history"].not_removed == counts
    rows = [row for row in harness.rows("snapshot", DATABASE, "journal") if row["_deleted_at"] is None]
    assert Counter((row["line"], row["n"]) for row in rows) == Counter([("a", 1), ("e", 2), ("d", 3), ("c", 3)])
