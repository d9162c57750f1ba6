"""Old rows of raw and entries that may go, as windows, needs of windows and notes of removals become more."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dts_assets.model.ledger_rows import QuarantineRow
from dts_assets.model.message_retention import ENTRIES, RAW, Removed, RemovedRows
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.problems import Reason
from dts_assets.model.spans import Span
from dts_assets.model.tables import TableId
from dts_assets.planning.earlier_cells import find_earlier_cells
from dts_assets.planning.kept_windows import kept_sentence, kept_windows
from dts_assets.planning.message_retention import (
    Stored,
    Unmakeable,
    entries_until,
    later_of,
    old_until,
    over_until,
    raw_until,
    removed_lines,
)
from dts_assets.planning.orphans import OrphanRule, orphans_among
from dts_assets.planning.redriven import can_be_redriven
from dts_assets.planning.sorting import KeyRange, files_at_one_key, is_worth_sorting
from dts_assets.planning.staleness import entries_input, input_text, raw_input
from dts_assets.planning.tag_retention import TaggedMoment, moments_that_go
from dts_assets.planning.work import plan_work
from dts_assets.store.table_files import LyingFile
from tests.growth.ledgers import GRID, START, cells, cuts, raws, windows
from tests.growth.long_histories import Case
from tests.ledger_rows import ingest_row

_DAY = timedelta(days=1)


def _stored(count: int) -> Stored:
    """Every window has the head of the next one's first set, and is compared with it."""
    raw, mine = raws(count), cells(count)
    entries = {}
    for place, cell in enumerate(mine):
        named = mine[max(0, place - 1) : place + 1]
        row = ingest_row(cell, raw[cell].offsets, inputs=[input_text(raw_input(one), "g") for one in named])
        entries[cell] = replace(row, left_open=(OpenSet("", 3, (raw[cell].offsets.end - 1,)),))
    compared = {cell: mine[max(0, place - 1) : place] for place, cell in enumerate(mine)}
    return Stored(raw, entries, cuts(count), compared)


def _decide(stored: Stored) -> None:
    count = len(stored.raw)
    old = GRID.at(count // 2).start
    raw_until(stored, old, GRID, kept=9)
    entries_until(stored, old, GRID, raw_goes=old)
    border = over_until(range(count), {one.start: 9 for one in windows(count)}, count)
    later_of(border, old)
    old_until(range(count), 9 * _DAY, now=datetime(1970, 1, 1, tzinfo=UTC) + count * _DAY, grace=_DAY)


def _removals(count: int) -> tuple[Stored, Removed, list[QuarantineRow]]:
    """Each note holds one window, and every other window has lost its rows."""
    at = START + _DAY
    rows = [
        RemovedRows(layer, one.start, one.end, (0,), 1, 9, 99, at, at)
        for one in windows(count // 2)
        for layer in (RAW, ENTRIES)
    ]
    lost = [QuarantineRow(0, one.start, "entries", 1, 1, Reason.MISSING_HEAD, "") for one in windows(count)]
    return _stored(count), Removed(tuple(rows)), lost


def _work(given: tuple[Stored, Removed, list[QuarantineRow]]) -> None:
    stored, removed, lost = given
    unmakeable = Unmakeable(removed, GRID)
    removed_lines(removed.rows)
    kept = kept_windows(stored.cuts.values(), unmakeable, settings="s", code_version="0")
    many = [TableId("bank", "", str(number)) for number in range(len(stored.raw))]
    kept_sentence(kept, "shop", many, code_version="0", has_rules=True)
    can_be_redriven(lost, unmakeable, lambda _: stored.entries.values())
    order = windows(len(stored.raw))
    plan_work(
        {0: order}, raw=stored.raw, entries=stored.entries, cuts=stored.cuts, decoding="d", settings="s",
        unmakeable=unmakeable,
    )  # fmt: skip
    for cell in stored.entries:
        unmakeable.raw(cell)
        unmakeable.entries_of([input_text(entries_input(cell), "g")])
    since = {0: removed.until(RAW, 0) or START}
    find_earlier_cells(Span((0,), tuple(order)), stored.raw, GRID, since=since)


def _files(count: int) -> tuple[list[LyingFile], list[TaggedMoment], list[KeyRange]]:
    """Every third file is named; two moments share each of their files; each file's keys meet those of its neighbours."""
    lying = [LyingFile(f"t/data/r{number // 5}/{number}", 9, START + number * _DAY) for number in range(count)]
    moments = [
        TaggedMoment(f"cut-{number}", START + number * _DAY, {f"{number}": 1, f"{number + 1}": 1})
        for number in range(count)
    ]
    return lying, moments, [KeyRange(number, number + 2, 9) for number in range(count)]


def _kept(given: tuple[list[LyingFile], list[TaggedMoment], list[KeyRange]]) -> None:
    lying, moments, ranges = given
    rule = OrphanRule(START + len(lying) * _DAY, (START + len(lying) * _DAY / 2,) * len(lying))
    orphans_among(lying, [one.place for one in lying[::3]], rule)
    moments_that_go(moments, most=len(moments) // 2)
    is_worth_sorting(ranges)
    files_at_one_key(ranges)


RETENTION_STEPS: dict[str, Case] = {
    "files that are kept in order": (_files, _kept),
    "old rows that may go": (_stored, _decide),
    "windows whose rows have gone": (_removals, _work),
}
