"""Collection of fragments that do not lie side by side.

Their sets are cut, repeated, interleaved, out of order or broken, so fragments are looked at one by one.

Every shard has one set that is being collected. Another set's fragment puts it aside; what was put aside is decided late, because
a set that begins again, or a fragment that comes late, may still make it whole:

- an equal whole copy came after it, or lies before the range: *superseded*;
- the rest of it came (only where sequence numbers tell that it is the rest): *joined*;
- the producer gave it up, as it does before it sends a set again, and no copy has come yet: *carried out*;
- otherwise *quarantined*, with a reason and all its bytes.

A range that knows which sets the range before left open begins with them (:meth:`Collector.take_over`), so that none is forgotten
at a border. A set that the producer gave up is quarantined at the end of the next range in which its shard sends anything.

At most :data:`MOST_ASIDE` sets of a shard are kept aside; the oldest is decided first. All unfinished sets together hold at most
:data:`MOST_HELD_BYTES`: beyond that the oldest that was put aside is decided, whichever shard it is of, and then the largest. A
set of more than ``partial_sets.MOST_SET_BYTES`` is quarantined by its coordinates, without its bytes, which stay in raw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from dts_assets.model.open_sets import OpenSet
from dts_assets.model.problems import Reason
from dts_assets.stages import partial_sets
from dts_assets.stages.heads import Head, HeadReader, Outcome
from dts_assets.stages.partial_sets import Fragment, PartialSet, indexes_text
from dts_assets.stages.quarantine import Unusable

MOST_ASIDE = 8
"""Unfinished sets of one shard that are kept for what may still come."""

MOST_HELD_BYTES = 1 << 30
"""The most bytes of all unfinished sets of a range."""


@dataclass(slots=True)
class Tally:
    """The fate of the messages of a range, counted: the terms of the ledger's equations."""

    messages: int = 0
    whole: int = 0
    fragments: int = 0
    null_messages: int = 0
    quarantined_messages: int = 0
    carried_in: int = 0
    joined: int = 0
    superseded: int = 0
    waiting: int = 0
    quarantined_fragments: int = 0
    carried_out: int = 0
    joined_sets: int = 0
    broken_sets: int = 0


class Joined(NamedTuple):
    """A set joined from fragments that were collected one by one."""

    first_offset: int
    last_offset: int
    shard: str | None
    sequence: int | None
    parts: tuple[bytes | pa.Buffer, ...]


class Collector:
    """The unfinished sets of a range. Results stand in ``tally``, ``broken`` and ``waiting``.

    ``broken`` may be taken away at any time (:meth:`take_broken`), so that it holds no more than a batch has broken.

    ``nothing_follows`` says that the source can never give another message, so that a set left open is broken, not carried.
    ``knows_before`` says that the range is told of every set that was unfinished before it: of all other fragments there, the
    ranges before it have decided the fate and count it, even where a set is joined of them after all.
    After :meth:`finish`, and not before, ``broken`` names the sets that can never be joined and ``waiting`` the first and last
    offset of those whose head is not stored yet; ``left_open`` are the sets that are carried out, ``taken_over`` those that were
    carried in and that the range found by itself. ``tally`` goes on counting where an earlier range of the same window ended.
    ``current`` has the set of each shard that is being collected, ``aside`` those that were put aside.
    """

    def __init__(
        self,
        read_head: HeadReader,
        *,
        nothing_follows: bool = False,
        knows_before: bool = False,
        tally: Tally | None = None,
    ) -> None:
        self.broken: list[Unusable] = []
        self.found_broken = False
        self.waiting: list[tuple[int, int]] = []
        self.left_open: list[OpenSet] = []
        self.taken_over: list[OpenSet] = []
        self.tally = Tally() if tally is None else tally
        self._read_head = read_head
        self._nothing_follows = nothing_follows
        self._knows_before = knows_before
        self.start: int | None = None  # the first offset of the range
        self.current: dict[str, PartialSet] = {}
        self.aside: dict[str, list[PartialSet]] = {}

    def take_over(self, known: OpenSet, fragments: Sequence[Fragment], *, may_outlive: bool = False) -> None:
        """Begin with a set that the range before left open, given with its fragments.

        ``may_outlive`` says that the end of this range is none of the window, so that the set is not given up there.
        """
        one = PartialSet.of(fragments[0])
        for fragment in fragments[1:]:
            one.put(fragment)
        one.searched, one.abandoned, one.seen_to = not one.low, known.abandoned, known.seen_to
        self.tally.carried_in += len(fragments)
        if known.collecting:
            self.current[known.shard] = one
        else:
            one.outlived = not may_outlive
            self.aside.setdefault(known.shard, []).append(one)

    def take_broken(self) -> list[Unusable]:
        """Return the sets that can never be joined and were not taken away yet."""
        taken, self.broken = self.broken, []
        return taken

    @property
    def busy(self) -> bool:
        """True if any set is unfinished."""
        return bool(self.current or self.aside)

    def add(self, shard: str, fragment: Fragment) -> Joined | None:
        """Take a fragment and return the set that it makes whole, if it does."""
        current = self.current.get(shard)
        if current is None or not current.takes(fragment):
            current = self._taken_up(shard, fragment)
        if current is None:
            current = self._begun(shard, fragment)
        elif (held := current.parts.get(fragment.index)) is None:
            current.put(fragment)
        elif fragment.repeats(held):
            self.tally.superseded += 1
            current.put(fragment)
        else:  # the number and the place are the same, and the bytes are not: nobody knows which are right
            current.reason = Reason.CONTRADICTORY_FRAGMENT
            self.put_aside(shard, fragment.sequence)
            current = self.current[shard] = PartialSet.of(fragment)
            current.reason = Reason.CONTRADICTORY_FRAGMENT
        if not (current.ended and current.unbroken):
            return None
        return self._end(shard, current)

    def put_aside(self, shard: str, sequence: int | None) -> None:
        """Something else than its next fragment came, with this sequence number, while a set was being collected."""
        if (current := self.current.pop(shard, None)) is None:
            return
        if current.base is not None and current.unbroken:
            current.abandoned = sequence == current.base + current.high + 1
        # A slice of a batch would keep all of the batch in memory.
        current.parts = {one.index: replace(one, data=bytes(one.data)) for one in current.parts.values()}
        waiting = self.aside.setdefault(shard, [])
        waiting.append(current)
        if len(waiting) > MOST_ASIDE:
            self._settle(shard, waiting.pop(0))

    def see_whole(
        self, shard: str, total: int, data_of: Callable[[int], bytes | pa.Buffer], *, head: Sequence[Fragment] = ()
    ) -> None:
        """Take note of a whole set: sets put aside before that are equal to it were copies.

        ``head`` are fragments that were read again for it: where one of them was put aside, it is part of the set and no copy.
        """
        own = {one.offset for one in head}
        for one in list(self.aside.get(shard, ())):
            if one.total == total and one.equals(data_of):
                joined = sum(part.offset in own for part in one.parts.values())
                self.tally.joined += joined
                self.tally.superseded += len(one.parts) - joined
                self._forget(shard, one)

    def let_go(self) -> None:
        """Decide about sets until the unfinished ones have no more bytes than may be held."""
        for shard, one in list(self.current.items()):
            if one.size > partial_sets.MOST_SET_BYTES:
                self._give_up(shard, self.current.pop(shard))
        held = sum(one.size for one in self._unfinished())
        while held > MOST_HELD_BYTES:
            aside = [(one.fragments[0].offset, shard) for shard, sets in self.aside.items() for one in sets[:1]]
            if aside:
                shard = min(aside)[1]
                oldest = self.aside[shard][0]
                self._forget(shard, oldest)
                held -= oldest.size
                self._settle(shard, oldest)
            else:
                shard = max(self.current, key=lambda shard: self.current[shard].size)
                held -= self.current[shard].size
                self._give_up(shard, self.current.pop(shard))

    def _unfinished(self) -> Iterator[PartialSet]:
        yield from self.current.values()
        for sets in self.aside.values():
            yield from sets

    def _give_up(self, shard: str, one: PartialSet) -> None:
        """Quarantine a set that is too large to be held."""
        one.reason, one.head = Reason.TOO_LARGE, ()
        self._break(shard, one)

    def finish(self) -> None:
        """Decide about every unfinished set: the range is over."""
        for shard in self.aside.keys() | self.current.keys():
            going_on, sets = self.current.get(shard), list(self.aside.get(shard, ()))
            if going_on is not None and (self._nothing_follows or going_on.ended):
                sets.append(going_on)
                going_on = None
            if going_on is not None and not self._goes_on(shard, going_on):
                going_on = None
            while sets:
                one = sets.pop()
                if going_on is not None and _begun_again(one, going_on):
                    self._carry(shard, one)
                    continue
                self._settle(shard, one)
                # A number that two sets claim speaks against both, so what was known last is told to those before.
                for other in sets:
                    if one.contradicted and _claim_the_same(one, other):
                        other.reason = Reason.CONTRADICTORY_FRAGMENT
        self.aside.clear()
        self.current.clear()
        self.left_open.sort(key=lambda one: (one.shard, one.offsets))
        self.taken_over.sort(key=lambda one: (one.shard, one.offsets))

    def _goes_on(self, shard: str, one: PartialSet) -> bool:
        """Carry the set that is being collected, if its begin is there; else decide its fate."""
        if one.low and not one.searched:
            if self._decided(one, self._read_head(shard, one.fragments)):
                return False
            if len(one.head) < one.low:
                self._break(shard, one)
                return False
        self._carry(shard, one, collecting=True)
        return True

    def _taken_up(self, shard: str, fragment: Fragment) -> PartialSet | None:
        """Collect the set put aside that a fragment names by its number again, and return it."""
        for one in self.aside.get(shard, ()):
            numbered = one.base is not None and fragment.sequence is not None
            if numbered and one.takes(fragment) and not one.contradicted:
                self._forget(shard, one)
                self.put_aside(shard, fragment.sequence)
                one.reason, one.searched, one.head, one.abandoned = None, False, (), False
                self.current[shard] = one
                return one
        return None

    def _begun(self, shard: str, fragment: Fragment) -> PartialSet:
        """Begin a new set with a fragment."""
        before, found = self.current.get(shard), PartialSet.of(fragment)
        if before is not None and fragment.index and _contradict(before, fragment):
            before.reason = found.reason = Reason.CONTRADICTORY_FRAGMENT
        self.put_aside(shard, fragment.sequence)
        self.current[shard] = found
        return found

    def _end(self, shard: str, current: PartialSet) -> Joined | None:
        """Join a set whose last fragment has come, with none missing since the first that came."""
        parts = current.fragments
        if current.low:
            head = self._read_head(shard, parts)
            # Where order and content are all there is, a head directly before the tail settles a doubt; numbers leave none.
            doubtful = current.contradicted and current.base is not None
            if head.outcome is not Outcome.FOUND or doubtful:
                if not self._decided(current, head):
                    self.put_aside(shard, None)
                self.current.pop(shard, None)
                return None
            parts = [*head.fragments, *parts]
        if sum(len(one.data) for one in parts) > partial_sets.MOST_SET_BYTES:
            self.current.pop(shard)
            self._give_up(shard, current)
            return None
        if current.low:
            self.tally.joined += len(self._take(shard, head.fragments, simply=True))
        del self.current[shard]
        self.tally.joined += len(current.parts)
        self.tally.joined_sets += 1
        self.see_whole(shard, current.total, lambda index: parts[index].data, head=parts[: current.low])
        offsets = [one.offset for one in parts]
        return Joined(min(offsets), max(offsets), shard or None, parts[-1].sequence, tuple(one.data for one in parts))

    def _decided(self, one: PartialSet, head: Head) -> bool:
        """Tell whether the messages before an unfinished set decide its fate; else note them."""
        if head.outcome is Outcome.REPEATED:
            self.tally.superseded += len(one.parts)
            return True
        if head.outcome is Outcome.WAITING:
            self.tally.waiting += len(one.parts)
            self.waiting.append(_span(one.fragments))
            return True
        one.searched, one.reason = True, one.reason or head.reason
        one.head = () if one.contradicted else head.fragments
        return False

    def _settle(self, shard: str, one: PartialSet) -> None:
        """Decide the fate of a set that is not whole."""
        can_tell = one.base is not None or one.low > 0
        if not one.searched and can_tell and self._decided(one, self._read_head(shard, one.fragments)):
            return
        if not self._nothing_follows and one.reason is None and one.may_go_on:
            self._carry(shard, one)
        else:
            self._break(shard, one)

    def _take(self, shard: str, head: Sequence[Fragment], *, simply: bool = False) -> Sequence[Fragment]:
        """Return the fragments of a head that are carried in, counted: none with a fate already.

        Where a set does not simply go on, what is found here is noted as an interrupted set, which is never what the range before
        leaves: a range that is told of its open sets has to decide.
        """
        if not head or self._knows_before or any(one.offset >= (self.start or 0) for one in head):
            return ()
        self.tally.carried_in += len(head)
        self.taken_over.append(OpenSet(shard, head[0].total, tuple(one.offset for one in head), simply))
        return head

    def _carry(self, shard: str, one: PartialSet, *, collecting: bool = False) -> None:
        offsets = tuple(part.offset for part in (*self._take(shard, one.head), *one.fragments))
        self.tally.carried_out += len(offsets)
        self.left_open.append(OpenSet(shard, one.total, offsets, collecting, one.abandoned, one.seen_to))

    def _break(self, shard: str, one: PartialSet) -> None:
        parts = one.with_head()
        self.tally.quarantined_fragments += len(one.parts) + len(self._take(shard, one.head))
        self.tally.broken_sets += 1
        of = f" of shard {shard}" if shard else ""
        what = "its fragments contradict each other" if one.contradicted else one.missing
        there = indexes_text(part.index for part in parts)
        detail = f"a set of {one.total} fragments{of}: {what}; here are {there}"
        reason = one.reason or Reason.MISSING_FRAGMENT
        if reason is Reason.TOO_LARGE:
            detail = (
                f"a set of {one.total} fragments{of} is too large to be held; here are {there}, of {one.size} bytes"
            )
        data = None if reason is Reason.TOO_LARGE else b"".join(part.data for part in parts)
        self.found_broken = True
        self.broken.append(Unusable(*_span(parts), reason, detail, data))

    def _forget(self, shard: str, one: PartialSet) -> None:
        self.aside[shard] = [other for other in self.aside[shard] if other is not one]
        if not self.aside[shard]:
            del self.aside[shard]


def _contradict(before: PartialSet, fragment: Fragment) -> bool:
    """Tell whether a fragment that is not the first of its set contradicts that set."""
    if before.base is None or fragment.base is None:
        return True
    return before.base == fragment.base and before.total != fragment.total


def _begun_again(one: PartialSet, current: PartialSet) -> bool:
    """Tell whether the current set is equal to the other from its start.

    Numbers would have kept both together.
    """
    if one.reason is not None or (one.total, one.low, one.base) != (current.total, current.low, None) or one.low:
        return False
    both = one.parts.keys() & current.parts.keys()
    return all(one.parts[index].repeats(current.parts[index]) for index in both)


def _claim_the_same(one: PartialSet, other: PartialSet) -> bool:
    """Tell whether two sets claim a sequence number, heads and numbers given up included."""
    if one.base is None or other.base is None:
        return False
    return one.base <= other.base + other.high + other.abandoned and other.base + other.low <= one.base + one.high


def _span(parts: Sequence[Fragment]) -> tuple[int, int]:
    """Return the least and the greatest offset."""
    offsets = [part.offset for part in parts]
    return min(offsets), max(offsets)
