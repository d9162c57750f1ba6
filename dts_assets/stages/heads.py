"""The search before a range for the head of a set, or for a whole copy of it.

Raw is read backwards from the tail, and no further than a decision needs. With sequence numbers every message says how far from
the tail it was sent, and smaller numbers than the set's first say that the head should have come by now. Some of them are passed:
directly before a tail, or before a repeated set, may stand other messages that were repeated. Without numbers a head must
directly precede its tail, and a repeated set is looked for by content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.problems import Reason
from dts_assets.stages import partial_sets
from dts_assets.stages.partial_sets import Fragment

FURTHEST_BY_SEQUENCE = 1024
"""Messages of later numbers passed on the way back to a repeated set.

A producer sends a handful of messages again.
"""

FURTHEST_REPEATED = 64
"""Messages of smaller numbers passed on the way back to a head or a repeated set.

They were repeated, too.
"""

FURTHEST_BY_CONTENT = 64
"""Messages looked at for a repeated set where none has a number."""


class Outcome(Enum):
    """The result of a search backwards."""

    FOUND = auto()
    """Every fragment before the tail."""
    REPEATED = auto()
    """The whole set, so that the tail is a copy of what was joined before."""
    WAITING = auto()
    """Nothing yet: earlier messages are not stored."""
    MISSING = auto()
    """There is no such head."""


@dataclass(frozen=True, slots=True)
class Head:
    """The fragments before a tail that were found, by index: all of them if the search succeeded.

    ``reason`` says why a head is missing.
    """

    outcome: Outcome
    fragments: tuple[Fragment, ...] = ()
    reason: Reason | None = None


HeadReader: TypeAlias = Callable[[str, Sequence[Fragment]], Head]
"""From shard and fragments (by index, at least one) to the messages before the first of them."""


def find_head(
    backwards: Iterable[tuple[pa.Int64Array, pa.RecordBatch]],
    *,
    shard: str,
    tail: Sequence[Fragment],
    reaches_start: bool,
) -> Head:
    """Search batches, read backwards (offsets and FRAGMENTS), for the head of ``tail``.

    ``tail`` are fragments of one set, by index.

    ``reaches_start`` says that nothing earlier than these batches can ever be stored; else an exhausted search means waiting.
    A tail that begins at index 0 has no head: then only a whole set that it repeats can be found.
    """
    search = _BySequence(tail) if tail[0].base is not None else _ByContent(tail)
    for fragment in _shard_backwards(backwards, shard):
        if (outcome := search.see(fragment)) is not None:
            return search.result(outcome)
        if search.size > partial_sets.MOST_SET_BYTES:
            return Head(Outcome.MISSING, (), Reason.TOO_LARGE)
    return search.result(Outcome.MISSING if reaches_start else Outcome.WAITING)


class _Search:
    """The facts of a search: the tail, and the fragments found before it."""

    def __init__(self, tail: Sequence[Fragment]) -> None:
        self._total, self._below = tail[0].total, tail[0].index
        self._known = {one.index: one for one in tail}
        self._head: dict[int, Fragment] = {}
        self._conflict = False
        self.size = 0
        """The bytes of the head so far."""

    def _keep(self, index: int, fragment: Fragment) -> None:
        if index not in self._head:
            self._head[index] = fragment
            self.size += len(fragment.data)

    def result(self, outcome: Outcome) -> Head:
        reason = None
        if outcome is Outcome.MISSING and self._conflict:
            reason = Reason.CONTRADICTORY_FRAGMENT
        elif outcome is Outcome.MISSING and self._below:
            reason = Reason.MISSING_FRAGMENT if 0 in self._head else Reason.MISSING_HEAD
        return Head(outcome, tuple(self._head[index] for index in sorted(self._head)), reason)


class _BySequence(_Search):
    """A search in which every fragment's number is known in advance."""

    def __init__(self, tail: Sequence[Fragment]) -> None:
        super().__init__(tail)
        self._base, self._above = tail[0].base or 0, tail[-1].index
        self._rest: set[int] = set()
        self._passed = self._repeated = 0

    def see(self, fragment: Fragment) -> Outcome | None:
        if fragment.sequence is None:
            return None
        place = fragment.sequence - self._base
        self._repeated += place < 0
        self._passed += place > self._above
        if self._repeated > FURTHEST_REPEATED or self._passed > FURTHEST_BY_SEQUENCE:
            return Outcome.MISSING
        if not 0 <= place < self._total:
            return None
        if (fragment.total, fragment.index) != (self._total, place):
            self._conflict |= place < self._below
            return None
        if place < self._below:
            self._keep(place, fragment)
        elif (mine := self._known.get(place)) is not None and not fragment.repeats(mine):
            self._conflict = True
        else:
            self._rest.add(place)
        if len(self._head) + len(self._rest) == self._total:
            return Outcome.REPEATED
        return Outcome.FOUND if 0 < self._below == len(self._head) else None


class _ByContent(_Search):
    """Two searches at a time: for fragments directly before the tail, and for a whole copy."""

    def __init__(self, tail: Sequence[Fragment]) -> None:
        super().__init__(tail)
        self._wanted = self._below - 1
        self._adjacent = self._below > 0
        self._run = self._total - 1
        self._looked = 0

    def see(self, fragment: Fragment) -> Outcome | None:
        self._looked += 1
        if self._adjacent and (outcome := self._step(fragment)) is not None:
            return outcome
        if not self._goes_on(fragment):
            self._run = self._total - 1
        if self._goes_on(fragment):
            self._run -= 1
        if self._run < 0:
            return Outcome.REPEATED
        return Outcome.MISSING if not self._adjacent and self._looked >= FURTHEST_BY_CONTENT else None

    def _step(self, fragment: Fragment) -> Outcome | None:
        mine = fragment.total == self._total
        if mine and fragment.index <= self._wanted:
            self._keep(fragment.index, fragment)
            self._wanted = fragment.index - 1
            if self._wanted < 0:
                return Outcome.FOUND if len(self._head) == self._below else Outcome.MISSING
            return None
        held = self._head.get(fragment.index) or self._known.get(fragment.index)
        if mine and fragment.index < self._total - 1 and held is not None and fragment.repeats(held):
            return None
        self._adjacent = False
        # A set that was left unfinished directly before: the tail was put where another's should stand.
        self._conflict = not self._head and 0 < fragment.index + 1 < fragment.total
        return None

    def _goes_on(self, fragment: Fragment) -> bool:
        if (fragment.total, fragment.index) != (self._total, self._run):
            return False
        mine = self._known.get(self._run)
        return mine is None or fragment.repeats(mine)


def _shard_backwards(batches: Iterable[tuple[pa.Int64Array, pa.RecordBatch]], shard: str) -> Iterator[Fragment]:
    """Yield the shard's usable messages, last first. A whole message comes as total 1, index 0."""
    for offsets, batch in batches:
        usable = pc.and_(
            pc.and_(batch["reason"].is_null(), pc.invert(batch["is_null"])), pc.equal(batch["shard"], shard)
        )
        for row in np.flatnonzero(np.asarray(usable))[::-1]:
            yield fragment_at(int(row), offsets, batch)


def fragment_at(row: int, offsets: pa.Int64Array, batch: pa.RecordBatch) -> Fragment:
    """Return one row of FRAGMENTS."""
    return Fragment(
        offsets[row].as_py(), batch["total"][row].as_py(), batch["index"][row].as_py(),
        batch["data"][row].as_buffer(), batch["sequence"][row].as_py(),
    )  # fmt: skip
