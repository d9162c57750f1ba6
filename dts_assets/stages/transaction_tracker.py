"""Transactions of one shard in one Kafka partition and window: ended, open, and not whole.

A binlog is one transaction after the other, so in what a task sends BEGIN, changes and COMMIT follow each other and positions
grow. Delivery is at least once: after a restart the task goes back and sends again, wherever it was. Rows that follow each other
as in a binlog make a stretch; Python looks at the beginning of each stretch alone, and a clean batch is one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from dts_assets.model.delivery import MOST_NAMED, ShardTransactions, Transaction
from dts_assets.model.gtids import parse_gtid
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.stages.entry_columns import BEGIN, CHECKPOINT, COMMIT, DDL, DML, ROLLBACK, EntryColumns
from dts_assets.stages.gtid_columns import GtidCollector, Rows
from dts_assets.wire.columns.buffers import rows_by_code

MOST_OPEN = 64
"""Transactions followed at a time that were begun and not ended."""


@dataclass(slots=True)
class _Open:
    """A transaction that was begun and has not ended; ``last_offset`` is where its last entry was seen.

    ``passed`` is the offset at which a later one began, so that what is missing of it lies between the two.
    """

    seen: Transaction
    last_offset: int
    passed: int | None = None


@dataclass(slots=True)
class TransactionTracker:
    """Follows the transactions of one shard. Feed it its entries in offset order. Its fields are all that it knows.

    ``fake`` is set by who has seen a CHECKPOINT which says that the task makes GTIDs up.
    """

    shard: str
    begun: int = 0
    ended: int = 0
    changes: int = 0
    first: Transaction | None = None
    open: _Open | None = None
    left: list[_Open] = field(default_factory=list)
    more_open: int = 0
    last_gtid: str | None = None
    last: tuple[int, int] = (-1, -1)
    last_offset: int = -1
    highest: tuple[int, int] = (-1, -1)
    highest_ended: tuple[int, int] = (-1, -1)
    numbers: dict[str, int] = field(default_factory=dict)
    gtids: GtidCollector = field(default_factory=GtidCollector)
    fake: bool = False
    faults: list[tuple[int, int, str, bool]] = field(default_factory=list)
    more_faults: int = 0

    def see(self, entries: EntryColumns) -> None:
        """Take note of entries of the shard."""
        part = entries.take(np.flatnonzero((entries.kinds >= 0) & (entries.kinds < CHECKPOINT)))
        if len(part):
            self._see(_Entries(part, self.last_gtid))

    def result(self) -> ShardTransactions:
        """Return the facts so far."""
        open_now = [one for one in self.left if one.passed is None]
        if self.open is not None:
            open_now.append(self.open)
        gtids = self.gtids.result()
        return ShardTransactions(
            self.shard, self.begun, self.ended, self.changes, self.first,
            tuple(one.seen for one in open_now[-MOST_NAMED:]),
            self.more_open + max(0, len(open_now) - MOST_NAMED),
            None if self.last[0] < 0 else SourcePosition(0, *self.highest),
            None if self.last[0] < 0 else self.last_offset,
            None if gtids is None else str(gtids),
            self.gtids.unreadable,
            self.fake,
        )  # fmt: skip

    def problems(self) -> Iterator[Problem]:
        """Yield the transactions that are not whole, where BEGIN and COMMIT are sent at all."""
        if not self.begun and not self.ended:
            return
        of = f" of shard {self.shard}" if self.shard else ""
        faults = [(first, last, text) for first, last, text, by_gtid in self.faults if not (by_gtid and self.fake)]
        faults += [
            (one.last_offset, one.passed, f"{_named(one.seen.gtid)}{of} has no COMMIT, and a later one begins")
            for one in self.left
            if one.passed is not None
        ]
        faults.sort()
        for first, last, text in faults[:MOST_NAMED]:
            yield Problem(ProblemCode.TRANSACTION, first, last, text.replace("{of}", of))
        more = len(faults) - MOST_NAMED + self.more_faults
        if more > 0:
            yield Problem(ProblemCode.TRANSACTION, None, None, f"{more} more transactions{of} are not whole")

    def _see(self, entries: _Entries) -> None:
        kinds, keys = entries.kinds, entries.keys
        inside = _inside(kinds, self.open is not None)
        before = np.concatenate(([self.open is not None], inside[:-1]))
        same = np.concatenate(([_agree(self.last_gtid, entries.gtid(0))], entries.same))
        grows = np.concatenate(([entries.position(0) >= self.last], keys[1:] >= keys[:-1]))
        goes_on = np.where(kinds == BEGIN, ~before, np.where(kinds == DDL, ~before | same, before & same)) & grows
        ended = np.flatnonzero((kinds == COMMIT) | (kinds == DDL) | (kinds == ROLLBACK))
        begins = np.flatnonzero(kinds == BEGIN)
        sources, numbers = self.gtids.add(entries.columns.gtids.take(ended))
        commits = int((kinds == COMMIT).sum() + (kinds == ROLLBACK).sum())
        unbounded = not (self.begun or self.ended or len(begins) or commits)
        starts = [0] if unbounded else sorted({0, *np.flatnonzero(~goes_on).tolist()})
        before_all, names = (self.last_gtid, self.last_offset), self.gtids.names
        for start, end in zip(starts, [*starts[1:], len(kinds)], strict=True):
            if self.first is None or not goes_on[start]:
                self._enter(entries, start, unbounded=unbounded)
            low, high = np.searchsorted(ended, (start, end))
            later = int(np.searchsorted(begins, end))
            begun = int(begins[later - 1]) if later and begins[later - 1] >= start else -1
            if self.left:
                self._settle(entries, start, end)
            self._leave(entries, end, inside=bool(inside[end - 1]), begun=begun, ended=ended[low:high])
            for source, greatest in _greatest(sources[low:high], numbers[low:high]):
                name = names[source]
                self.numbers[name] = max(self.numbers.get(name, 0), greatest)
        if unbounded:
            self._without_bounds(entries, np.flatnonzero((kinds == DML) & ~same & grows), *before_all)
        self.begun += len(begins)
        self.ended += commits
        self.changes += int((kinds == DML).sum())

    def _without_bounds(self, entries: _Entries, changed: Rows, gtid: str | None, offset: int) -> None:
        """Take note of a batch of changes alone.

        It is part of a long transaction, or of a partition without BEGIN and COMMIT, as only the rest can tell.
        """
        self.more_faults += max(0, len(changed) - MOST_NAMED)
        for row in changed[:MOST_NAMED].tolist():
            before = (entries.gtid(row - 1), entries.offset(row - 1)) if row else (gtid, offset)
            text = f"the end of {_named(before[0])}{{of}} and the BEGIN of the next are missing"
            self._fault(before[1], entries.offset(row), text, by_gtid=True)
        if len(changed):
            self.open = _Open(entries.transaction(int(changed[-1]), begun=False), self.last_offset)

    def _enter(self, entries: _Entries, row: int, *, unbounded: bool) -> None:
        """Judge a row that does not go on with the one before it as a binlog does."""
        kind, gtid = int(entries.kinds[row]), entries.gtid(row)
        if self.first is None:
            begun = kind in (BEGIN, DDL)
            self.first = entries.transaction(row, begun=begun)
            if not begun:  # its beginning lies before this cell
                self.open = _Open(self.first, entries.offset(row))
            return
        if unbounded:
            return
        now = self.open
        if kind == BEGIN:
            if now is not None and not self._is(now, entries, row):
                self._leave_open(now)
            self.open = None
            return
        if kind == DDL:
            if now is not None and not (gtid and gtid == now.seen.gtid):
                self._leave_open(now)
                self.open = None
            return
        if now is not None and _agree(now.seen.gtid, gtid):
            told = gtid is not None and now.seen.gtid is not None
            if told or entries.position(row) >= _at(now.seen):
                return
        # Straight on in one binlog nothing is read again: BEGIN and COMMIT of the open transaction contradict each other. Rows of
        # one event that come as messages of their own have one place, and it has one GTID.
        on = now is not None and now.seen.server_id == entries.server_id(row) and entries.position(row) >= self.last
        seen = self._was_seen(entries, row) and not on
        resumed = self._resumed(entries, row)
        if now is not None:
            self._leave_open(now)
        self.open = resumed or _Open(entries.transaction(row, begun=False), entries.offset(row))
        if not seen and resumed is None:
            what = "changes" if kind == DML else "a COMMIT"
            text = f"{what} of {_named(gtid)}{{of}} without its BEGIN"
            self._fault(self.last_offset, entries.offset(row), text, by_gtid=gtid is not None)

    def _resumed(self, entries: _Entries, row: int) -> _Open | None:
        """Return the transaction left open before a re-read with which a row goes on."""
        gtid = entries.gtid(row)
        for one in reversed(self.left):
            told = gtid is not None and one.seen.gtid is not None
            if one.seen.gtid == gtid if told else one.passed is None and entries.position(row) > _at(one.seen):
                self.left.remove(one)
                return one
        return None

    def _leave(self, entries: _Entries, end: int, *, inside: bool, begun: int, ended: Rows) -> None:
        """Take note of the end of a stretch; ``begun`` is its last BEGIN, -1 without one."""
        last = end - 1
        if inside and begun > ended[entries.kinds[ended] != DDL].max(initial=-1):
            self.open = _Open(entries.transaction(begun, begun=True), entries.offset(last))
        elif inside and self.open is not None:
            self.open.last_offset = entries.offset(last)
        elif not inside:
            self.open = None
        if len(ended):
            self.highest_ended = max(self.highest_ended, entries.position(int(ended[-1])))
        self.last_gtid, self.last, self.last_offset = entries.gtid(last), entries.position(last), entries.offset(last)
        self.highest = max(self.highest, self.last)

    def _leave_open(self, one: _Open) -> None:
        """Remember an open transaction as another begins, unless it had ended before.

        Then it was only being read again.
        """
        source, number = _parsed(one.seen.gtid)
        if source is None:
            ended = _at(one.seen) <= self.highest_ended
        else:
            ended = number <= self.numbers.get(source, 0)
        if ended:
            return
        if len(self.left) >= MOST_OPEN:
            gone = self.left.pop(0)
            self.more_faults += gone.passed is not None
            self.more_open += gone.passed is None
        self.left.append(one)

    def _settle(self, entries: _Entries, start: int, end: int) -> None:
        """Follow transactions left open that a stretch holds again, and note those that it passes."""
        rows = np.flatnonzero(entries.kinds[start:end] != DML) + start
        gtids = {entries.text(code) for code in np.unique(entries.told[rows]).tolist()} - {None}
        still = []
        for one in self.left:
            if one.seen.gtid in gtids or self._covers(one, entries, start, end):
                continue
            if one.passed is None:
                one.passed = self._passes(one, entries, start, end)
            still.append(one)
        self.left = still

    @staticmethod
    def _covers(one: _Open, entries: _Entries, start: int, end: int) -> bool:
        """Tell whether a stretch holds a transaction by its place.

        GTIDs that are made up may differ when it is read again.
        """
        at = _at(one.seen)
        if not entries.position(start) <= at <= entries.position(end - 1):
            return False
        row = bisect_left(range(start, end), at, key=entries.position) + start
        begins = entries.position(row) == at and int(entries.kinds[row]) == BEGIN
        return one.seen.gtid is None or (one.seen.begun and begins)

    def _passes(self, one: _Open, entries: _Entries, start: int, end: int) -> int | None:
        """Return the offset at which a stretch begins a transaction later than one that never ended."""
        if entries.position(end - 1) <= _at(one.seen):
            return None  # each of the transactions that were left open is asked at every stretch
        low = bisect_right(range(start, end), _at(one.seen), key=entries.position) + start
        later = np.flatnonzero((entries.kinds[low:end] == BEGIN) | (entries.kinds[low:end] == DDL)) + low
        source, number = _parsed(one.seen.gtid)

        def comes_after(row: int) -> bool:
            other, theirs = _parsed(entries.gtid(row))
            if source is None or other is None:
                return source is None and entries.server_id(row) == one.seen.server_id
            return theirs > number if other == source else theirs > self.numbers.get(other, 0)

        if not len(later) or not comes_after(int(later[-1])):
            return None
        return entries.offset(int(later[bisect_left(later.tolist(), True, key=comes_after)]))

    def _is(self, one: _Open, entries: _Entries, row: int) -> bool:
        """Tell whether a BEGIN is that of a transaction which is open already."""
        gtid = entries.gtid(row)
        return (gtid is not None and gtid == one.seen.gtid) or (
            one.seen.begun and entries.position(row) == _at(one.seen)
        )

    def _was_seen(self, entries: _Entries, row: int) -> bool:
        """Tell whether a row can be a re-read from the middle of a transaction."""
        source, number = _parsed(entries.gtid(row))
        if source is not None:
            others = [_parsed(one.seen.gtid) for one in (self.open, *self.left) if one is not None]
            seen = [theirs for other, theirs in others if other == source]
            if source in self.numbers or seen:
                return number <= max([self.numbers.get(source, 0), *seen])
        return entries.position(row) <= self.highest

    def _fault(self, first: int, last: int, text: str, *, by_gtid: bool) -> None:
        if len(self.faults) < MOST_NAMED:
            self.faults.append((first, last, text, by_gtid))
        else:
            self.more_faults += 1


class _Entries:
    """The entries of a batch that have a part in transactions.

    ``same`` compares each row's GTID with the row before it.

    ``told`` are codes of GTIDs. Changes may leave theirs to their BEGIN: then it is that of the entry before, and at the head of
    the batch ``before``.
    """

    def __init__(self, columns: EntryColumns, before: str | None) -> None:
        self.columns = columns
        self.kinds, self.keys = columns.kinds, columns.keys
        self._before = before
        self.told = columns.gtids.codes
        if before is not None or np.any(self.told >= 0):
            bare = (self.kinds == DML) & (self.told < 0)
            if bare.any():
                self.told = np.where(bare, self._filled(), self.told)
        unknown = self.told < 0
        self.same = (self.told[1:] == self.told[:-1]) | unknown[1:] | unknown[:-1]

    def _filled(self) -> Rows:
        """Return the codes with that of the entry before where there is none."""
        last = np.maximum.accumulate(np.where(self.told >= 0, np.arange(len(self.told)), -1))
        return np.where(last < 0, self._code_before(), self.told[np.maximum(last, 0)])

    def _code_before(self) -> int:
        texts = self.columns.gtids.texts
        if self._before is None:
            return -1
        at: int = pc.index(texts, self._before).as_py()
        return len(texts) if at < 0 else at

    def text(self, code: int) -> str | None:
        """Return the GTID that a code of ``told`` stands for."""
        return self._before if code == len(self.columns.gtids.texts) else self.columns.gtids.text(code)

    def position(self, row: int) -> tuple[int, int]:
        return self.columns.place(row)

    def offset(self, row: int) -> int:
        return int(self.columns.offsets[row])

    def gtid(self, row: int) -> str | None:
        return self.text(int(self.told[row]))

    def server_id(self, row: int) -> int:
        return int(self.columns.server_ids[row])

    def transaction(self, row: int, *, begun: bool) -> Transaction:
        position = SourcePosition(0, *self.position(row))
        return Transaction(self.gtid(row), position, self.server_id(row), self.offset(row), begun)


def _inside(kinds: npt.NDArray[np.int32], before: bool) -> npt.NDArray[np.bool_]:
    """Tell whether a transaction is open behind each row; a DDL statement leaves that as it is."""
    inside: npt.NDArray[np.bool_] = (kinds == BEGIN) | (kinds == DML)
    statements = kinds == DDL
    if statements.any():
        bounds = np.maximum.accumulate(np.where(statements, -1, np.arange(len(kinds))))
        inside = np.where(bounds < 0, before, inside[np.maximum(bounds, 0)])
    return inside


def _greatest(codes: Rows, numbers: Rows) -> Iterator[tuple[int, int]]:
    """Yield the greatest number of each source."""
    for code, rows in rows_by_code(codes):
        yield code, int(numbers[rows].max())


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


def _parsed(gtid: str | None) -> tuple[str | None, int]:
    """Return source and number of a GTID, (None, 0) for none and for a text that is none."""
    try:
        return (None, 0) if gtid is None else parse_gtid(gtid)
    except ValueError:
        return None, 0


def _at(one: Transaction) -> tuple[int, int]:
    return one.position.file, one.position.position


def _named(gtid: str | None) -> str:
    return "a transaction" if gtid is None else f"transaction {gtid}"
