"""The lives of a topic whose messages carry ids: with a task made anew, ids begin again.

Within a Kafka partition ids grow, except where something is told again or begins again. What a fall of ids means shows in the
content of the messages behind it, as far as their ids had been passed, and so it is decided for all of them together:

- an id with another content and another time than it had, or an id never seen whose time is later than all times of the life: a
life begins at the fall. Messages that happen to say what they said in the life before belong to it, too; - or else, contents
that all stood in an older life, none later than the present one: that life is told again; - or else the present life goes on.
Contents that it has are copies; ids never seen, and other contents at the time that the id had, are a doubt, and they stay.

Nothing is read here. Contents are compared elsewhere (``stages/message_contents.py``), and the answers stand in the ledger.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dts_assets.model.ledger_rows import Comparison, IngestWindow
from dts_assets.model.lineages import Doubt
from dts_assets.model.lives import Fall, LifeBehind, LivesBehind, Part, Stretch, Turn
from dts_assets.model.problems import ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.planning.parts_elsewhere import NOWHERE, PartsElsewhere
from dts_assets.planning.suspicions import Suspicion


@dataclass(slots=True)
class Life:
    """A life as one Kafka partition saw it.

    ``begin`` is the part that the life begins with, ``before`` the last part before it, None for the first life, and
    ``latest_before`` the latest time until then. ``reached`` has the greatest id up to each part. ``left_out`` are the least and
    the greatest id of parts that settled days have, which are not among the parts.
    """

    number: int
    begin: Part
    before: Part | None
    latest_before: datetime | None
    parts: list[Part] = field(default_factory=list)
    greatest: int = -1
    latest: datetime | None = None
    last: Part | None = None
    reached: list[int] = field(default_factory=list)
    left_out: tuple[int, int] | None = None

    @classmethod
    def resumed(cls, behind: LifeBehind) -> Life:
        """Return a life as settled days have left it."""
        return cls(
            behind.number, behind.begin, behind.before, behind.latest_before, [], behind.greatest, behind.latest,
            behind.last, [], behind.ids,
        )  # fmt: skip

    def to_settle(self) -> LifeBehind:
        """Return what later windows need to know of the life."""
        assert self.latest is not None, "a life begins with messages"
        assert self.last is not None, "a life begins with messages"
        least, most = [part.first for part in self.parts], [part.last for part in self.parts]
        if self.left_out is not None:
            least, most = [self.left_out[0], *least], [self.left_out[1], *most]
        return LifeBehind(
            self.number, self.begin, self.before, self.latest_before, self.greatest, self.latest, self.last,
            (min(least), max(most)),
        )  # fmt: skip

    def add(self, part: Part, *, copies_until: int, doubts: int) -> None:
        """Add a part that came behind all others.

        Nobody has to compare with one that only repeats others.
        """
        self.last = part
        self.latest = part.run.last_time if self.latest is None else max(self.latest, part.run.last_time)
        if part.last < copies_until and not doubts:
            return
        self.parts.append(part)
        self.greatest = max(self.greatest, part.last)
        self.reached.append(self.greatest)

    def within(self, least: int, most: int) -> tuple[Part, ...]:
        """Return the parts with ids in a range.

        A year of windows has thousands, and a fall mostly concerns the last.
        """
        some = self.parts[bisect_left(self.reached, least) :]
        return tuple(part for part in some if part.first <= most and part.last >= least)

    def leaves_out(self, least: int, most: int) -> bool:
        """Return whether parts that are left out may have ids in a range."""
        return self.left_out is not None and self.left_out[0] <= most and self.left_out[1] >= least


@dataclass(frozen=True, slots=True)
class PartitionLives:
    """The lives of one Kafka partition.

    ``decided`` are the falls whose contents were compared, with the answers, ``stretches`` has the stretches of every cell.
    ``undecided`` is the first fall that was not compared yet: what is behind it is taken for the life before. ``parts`` are all
    runs, in the order of arrival. ``incomplete`` says that a fall has to be compared with windows that are left out because they
    are settled. ``unpassed`` is the fall behind which the ids that had been passed have not been passed again at the end.
    ``before`` stands for windows that are left out, ``behind`` is what windows behind all of these need to know.
    """

    kafka_partition: int
    lives: tuple[Life, ...]
    turns: tuple[Turn, ...]
    decided: tuple[tuple[Fall, Comparison], ...]
    stretches: Mapping[Cell, tuple[Stretch, ...]]
    broken: tuple[int, ...]
    undecided: Fall | None
    parts: tuple[Part, ...]
    before: LivesBehind
    behind: LivesBehind
    incomplete: bool = False
    unpassed: Fall | None = None

    def stretch_of(self, cell: Cell, offset: int) -> int:
        """Return the number of the stretch of growing ids to which an entry belongs."""
        stretches = self.stretches.get(cell, ())
        place = bisect_right(stretches, offset, key=lambda one: one.offset)
        return stretches[max(0, place - 1)].number if stretches else -1

    def doubts(self) -> Iterator[Doubt]:
        """Yield the places at which identity is not proven."""
        for fall, answer in self.decided:
            if answer.doubts and answer.doubted is not None:
                detail = (
                    f"{answer.doubts} messages have ids below one before them that were never seen, or never with this"
                    " content, and nothing shows a new task; their changes were kept, by id"
                )
                if answer.life == len(fall.lives):
                    detail = (
                        f"{answer.doubts} messages behind the begin of new ids say what was said before it, with the same id"
                        " and time; their changes were kept twice"
                    )
                yield Doubt(self.kafka_partition, answer.doubted, detail, ProblemCode.ID)
        for offset in self.broken:
            detail = "ids fall too often in this window to tell from here on what is sent again"
            yield Doubt(self.kafka_partition, offset, detail, ProblemCode.ID)


def find_lives(
    rows: Iterable[IngestWindow], comparisons: Iterable[Comparison], behind: Iterable[LivesBehind] = ()
) -> dict[int, PartitionLives]:
    """Return the lives of every Kafka partition, from all stored windows and the comparisons so far.

    ``behind`` stands for windows that are left out.
    """
    known, before = {one.inputs: one for one in comparisons}, {one.kafka_partition: one for one in behind}
    rows = list(rows)
    elsewhere = PartsElsewhere(rows, before.values())
    by_partition: dict[int, list[IngestWindow]] = {partition: [] for partition in before}
    for row in sorted(rows, key=lambda row: (row.kafka_partition, row.epoch, row.window.start)):
        by_partition.setdefault(row.kafka_partition, []).append(row)
    return {
        partition: follow_ids(partition, mine, known, before.get(partition), elsewhere)
        for partition, mine in sorted(by_partition.items())
    }


def follow_ids(
    kafka_partition: int,
    rows: Sequence[IngestWindow],
    known: Mapping[str, Comparison],
    behind: LivesBehind | None = None,
    elsewhere: PartsElsewhere = NOWHERE,
) -> PartitionLives:
    """Return the lives of a Kafka partition.

    Its rows are in the order of arrival; ``known`` has comparisons by their inputs. ``behind`` stands for earlier rows,
    ``elsewhere`` has the runs of all Kafka partitions.
    """
    before = behind or LivesBehind(kafka_partition)
    seen = _Seen.behind(before, elsewhere)
    decided: list[tuple[Fall, Comparison]] = []
    undecided: Fall | None = None
    unpassed: Fall | None = None
    after, stretches = before, list(_stretches(rows, before))
    for parts, goes_on in stretches:
        unpassed = None
        if goes_on:
            seen.add(parts, seen.present, copies_until=seen.copies_until, doubts=seen.doubts)
        elif seen.lives and undecided is None:
            fall, answer = _decided(seen, kafka_partition, parts, known)
            seen.incomplete |= any(one.leaves_out(fall.first, fall.passed) for one in seen.lives)
            seen.incomplete |= elsewhere.leaves_out(kafka_partition, fall.first, fall.passed)
            begins = answer is not None and answer.life == len(seen.lives)
            unpassed = fall if fall.parts[-1].last <= fall.greatest and not begins else None
            if unpassed is not None:
                after = seen.to_settle(kafka_partition, parts)
            if answer is None:
                undecided = fall
                seen.add(parts, seen.present)
            else:
                decided.append((fall, answer))
                seen.go_on(parts, fall, answer)
        else:
            seen.add(parts, seen.present)
    if stretches and unpassed is None:
        after = seen.to_settle(kafka_partition)
    arrived = tuple(part for parts, _ in stretches for part in parts)
    last, cells = before.last, before.cells
    for part in arrived[: len(arrived) - len(after.open)] if stretches else ():
        last, cells = part, _cells_with(last, cells, part)
    broken = tuple(run.first_offset for row in rows for run in row.runs if run.broken)
    return PartitionLives(
        kafka_partition, tuple(seen.lives), tuple(seen.turns), tuple(decided),
        {cell: tuple(some) for cell, some in seen.stretches.items()}, broken, undecided,
        arrived, before, replace(after, last=last, cells=cells), seen.incomplete, unpassed,
    )  # fmt: skip


def _decided(
    seen: _Seen, kafka_partition: int, parts: tuple[Part, ...], known: Mapping[str, Comparison]
) -> tuple[Fall, Comparison | None]:
    """Return the fall that begins some parts, and the comparison of it.

    The comparison is None if there is none yet. Where its first parts show that a life begins, nothing behind them can change
    it: the ids of a life before are passed only after months, and nobody has to compare all that comes until then.
    """
    fall = seen.fall(kafka_partition, parts)
    answer = known.get(fall.inputs)
    place = (kafka_partition, fall.cell.window, fall.offset)
    for one in known.values() if answer is None else ():
        shorter = one.parts is not None and 0 < one.parts < len(fall.parts) and one.life == len(seen.lives)
        if shorter and (one.kafka_partition, one.window, one.offset) == place:
            first = seen.fall(kafka_partition, parts[: one.parts])
            if first.inputs == one.inputs:
                return first, one
    return fall, answer


def find_copies(lives: Iterable[PartitionLives]) -> dict[Cell, Suspicion]:
    """Return the windows that every cell has to be compared with.

    A cell that is left out holds no copies.
    """
    earlier: dict[Cell, set[Cell]] = {}
    for mine in lives:
        for fall, answer in mine.decided:
            if answer.life == len(fall.lives):
                continue
            compared = {part.cell for part in fall.lives[answer.life]}
            for place, part in enumerate(fall.parts):
                # Pieces of one event are told apart by their number, which goes on over the border of windows.
                goes_on = {one.cell for one in fall.parts[:place] if one.last == part.first}
                earlier.setdefault(part.cell, set()).update(compared, goes_on)
        for cell, before in _equal_neighbours(mine):
            earlier.setdefault(cell, set()).add(before)
    return {
        cell: Suspicion(cell, tuple(sorted(some - {cell})), itself=cell in some, by_gtid=False)
        for cell, some in earlier.items()
    }


def _equal_neighbours(lives: PartitionLives) -> Iterator[tuple[Cell, Cell]]:
    """Yield the cells that may repeat a neighbour of equal id, each with the neighbour's cell."""
    before, cells = lives.before.last, lives.before.cells
    for part in lives.parts:
        if before is not None and before.last == part.first:
            yield from ((part.cell, cell) for cell in cells)
        if part.run.repeats:
            yield part.cell, part.cell
        before, cells = part, _cells_with(before, cells, part)


def _cells_with(before: Part | None, cells: tuple[Cell, ...], part: Part) -> tuple[Cell, ...]:
    """Return the cells that end with the id of ``part``, and the pieces of its event there.

    ``cells`` are those of the part before.
    """
    goes_on = before is not None and before.last == part.first and part.first == part.last
    return (*cells, part.cell) if goes_on else (part.cell,)


@dataclass(slots=True)
class _Seen:
    """The lives of a Kafka partition up to a place.

    ``present`` is the number of the one that goes on there. ``stretch`` is the number of the stretch that does, ``copies_until``
    and ``doubts`` are what the last fall has told of it; messages that are copied from other Kafka partitions count as doubts.
    """

    lives: list[Life] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    stretches: dict[Cell, list[Stretch]] = field(default_factory=dict)
    present: int = 0
    stretch: int = 0
    copies_until: int = -1
    doubts: int = 0
    incomplete: bool = False
    elsewhere: PartsElsewhere = NOWHERE

    @classmethod
    def behind(cls, before: LivesBehind, elsewhere: PartsElsewhere) -> _Seen:
        """Return the lives as windows that are left out have left them."""
        lives = [Life.resumed(one) for one in before.lives]
        return cls(
            lives, list(before.turns), {}, before.present, before.stretch, before.copies_until, before.doubts,
            elsewhere=elsewhere,
        )  # fmt: skip

    def to_settle(self, kafka_partition: int, unpassed: tuple[Part, ...] = ()) -> LivesBehind:
        """Return what later windows need to know. ``unpassed`` are the parts behind a fall that is not over."""
        lives = tuple(life.to_settle() for life in self.lives)
        return LivesBehind(
            kafka_partition, lives, tuple(self.turns), self.present, self.stretch, self.copies_until, self.doubts,
            open=unpassed,
        )  # fmt: skip

    def fall(self, kafka_partition: int, parts: tuple[Part, ...]) -> Fall:
        life = self.lives[self.present]
        passed = next((place for place, part in enumerate(parts, 1) if part.last > life.greatest), len(parts))
        parts = parts[:passed]
        least, most = parts[0].first, min(life.greatest, parts[-1].last)
        assert life.latest is not None, "a life begins with messages"
        lives = tuple(one.within(least, most) for one in self.lives)
        since, until = (part.cell.window.start for part in (parts[0], parts[-1]))
        elsewhere = self.elsewhere.within(kafka_partition, least, most, since=since, until=until)
        return Fall(kafka_partition, parts, self.present, life.greatest, life.latest, lives, elsewhere)

    def go_on(self, parts: tuple[Part, ...], fall: Fall, answer: Comparison) -> None:
        """Take note of the messages behind a fall."""
        if answer.life in (self.present, len(self.lives)):
            copies_until = fall.greatest if answer.life == self.present else -1
            self.add(parts, answer.life, copies_until=copies_until, doubts=answer.doubts + (answer.copied or 0))
            return
        told_again = parts if answer.until_part is None else parts[: answer.until_part + 1]
        self._put(told_again, answer.life, fall.greatest)
        if answer.until is not None and answer.until_part is not None:
            rest = parts[answer.until_part :]
            self.add((replace(rest[0], start=answer.until), *rest[1:]), self.present)

    def add(self, parts: tuple[Part, ...], number: int, *, copies_until: int = -1, doubts: int = 0) -> None:
        """Add messages to a life, which may begin with them."""
        if number == len(self.lives):
            last = self.lives[self.present] if self.lives else None
            before, latest = (None, None) if last is None else (last.last, last.latest)
            self.lives.append(Life(number, parts[0], before, latest))
        life = self.lives[number]
        self._put(parts, number, copies_until)
        for part in parts:
            life.add(part, copies_until=copies_until, doubts=doubts)
        self.present, self.copies_until, self.doubts = number, copies_until, doubts

    def _put(self, parts: Sequence[Part], number: int, copies_until: int) -> None:
        if not self.turns or self.turns[-1].life != number:
            self.turns.append(Turn(parts[0].epoch, parts[0].start, number))
        self.stretch = parts[-1].stretch
        for part in parts:
            stretch = Stretch(part.start, part.stretch, number, copies_until)
            self.stretches.setdefault(part.cell, []).append(stretch)


def _stretches(rows: Sequence[IngestWindow], before: LivesBehind) -> Iterator[tuple[tuple[Part, ...], bool]]:
    """Yield the runs that follow each other without a fall, over the borders of windows.

    With each comes whether it goes on from windows that are left out. Without an open fall the first one does.
    """
    parts = list(before.open)
    number, goes_on = (parts[0].stretch, False) if parts else (before.stretch, before.last is not None)
    last = parts[-1] if parts else before.last
    for row in rows:
        for run in row.runs:
            if last is not None and run.first.position < last.last:
                if parts:
                    yield tuple(parts), goes_on
                parts, number, goes_on = [], number + 1, False
            last = Part(row.cell, row.epoch, row.generation, run, number, run.first_offset)
            parts.append(last)
    if parts:
        yield tuple(parts), goes_on
