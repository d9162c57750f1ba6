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
from dts_assets.model.lives import Fall, Part, Stretch
from dts_assets.model.problems import ProblemCode
from dts_assets.model.spans import Cell
from dts_assets.planning.suspicions import Suspicion


@dataclass(slots=True)
class Life:
    """A life as one Kafka partition saw it.

    ``before`` is the last part before the life, None for the first one, ``latest_before`` the latest time until then.
    ``reached`` has the greatest id up to each part.
    """

    number: int
    parts: list[Part]
    before: Part | None
    latest_before: datetime | None
    greatest: int = -1
    latest: datetime | None = None
    last: Part | None = None
    reached: list[int] = field(default_factory=list)

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

    @property
    def begin(self) -> Part:
        """The part that the life begins with."""
        return self.parts[0]


@dataclass(frozen=True, slots=True)
class Turn:
    """From an offset on, messages belong to a life."""

    epoch: int
    offset: int
    life: int


@dataclass(frozen=True, slots=True)
class PartitionLives:
    """The lives of one Kafka partition.

    ``decided`` are the falls whose contents were compared, with the answers, ``stretches`` has the stretches of every cell.
    ``undecided`` is the first fall that was not compared yet: what is behind it is taken for the life before. ``parts`` are all
    runs, in the order of arrival.
    """

    kafka_partition: int
    lives: tuple[Life, ...]
    turns: tuple[Turn, ...]
    decided: tuple[tuple[Fall, Comparison], ...]
    stretches: Mapping[Cell, tuple[Stretch, ...]]
    broken: tuple[int, ...]
    undecided: Fall | None
    parts: tuple[Part, ...] = ()

    def stretch_of(self, cell: Cell, offset: int) -> int:
        """Return the number of the stretch of growing ids to which an entry belongs."""
        stretches = self.stretches.get(cell, ())
        place = bisect_right(stretches, offset, key=lambda one: one.offset)
        return stretches[max(0, place - 1)].number if stretches else -1

    def doubts(self) -> Iterator[Doubt]:
        """Yield the places at which identity is not proven."""
        for _, answer in self.decided:
            if answer.doubts and answer.doubted is not None:
                detail = (
                    f"{answer.doubts} messages have ids below one before them that were never seen, or never with this"
                    " content, and times that show no new task; their changes were kept, by id"
                )
                yield Doubt(self.kafka_partition, answer.doubted, detail, ProblemCode.ID)
        for offset in self.broken:
            detail = "ids fall too often in this window to tell from here on what is sent again"
            yield Doubt(self.kafka_partition, offset, detail, ProblemCode.ID)


def find_lives(rows: Iterable[IngestWindow], comparisons: Iterable[Comparison]) -> dict[int, PartitionLives]:
    """Return the lives of every Kafka partition, from all stored windows and the comparisons so far."""
    known = {one.inputs: one for one in comparisons}
    by_partition: dict[int, list[IngestWindow]] = {}
    for row in sorted(rows, key=lambda row: (row.kafka_partition, row.epoch, row.window.start)):
        by_partition.setdefault(row.kafka_partition, []).append(row)
    return {partition: follow_ids(partition, mine, known) for partition, mine in by_partition.items()}


def follow_ids(kafka_partition: int, rows: Sequence[IngestWindow], known: Mapping[str, Comparison]) -> PartitionLives:
    """Return the lives of a Kafka partition.

    Its rows are in the order of arrival; ``known`` has comparisons by their inputs.
    """
    seen = _Seen()
    decided: list[tuple[Fall, Comparison]] = []
    undecided: Fall | None = None
    stretches = list(_stretches(rows))
    for parts in stretches:
        if seen.lives and undecided is None:
            fall = seen.fall(kafka_partition, parts)
            answer = known.get(fall.inputs)
            if answer is not None:
                decided.append((fall, answer))
                seen.go_on(parts, fall, answer)
                continue
            undecided = fall
        seen.add(parts, seen.present)
    broken = tuple(run.first_offset for row in rows for run in row.runs if run.broken)
    return PartitionLives(
        kafka_partition, tuple(seen.lives), tuple(seen.turns), tuple(decided),
        {cell: tuple(some) for cell, some in seen.stretches.items()}, broken, undecided,
        tuple(part for parts in stretches for part in parts),
    )  # fmt: skip


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
    before: Part | None = None
    cells: list[Cell] = []  # that end with the id of the part before, and the pieces of its event there
    for part in lives.parts:
        goes_on = before is not None and before.last == part.first
        if goes_on:
            yield from ((part.cell, cell) for cell in cells)
        if part.run.repeats:
            yield part.cell, part.cell
        cells = [*cells, part.cell] if goes_on and part.first == part.last else [part.cell]
        before = part


@dataclass(slots=True)
class _Seen:
    """The lives of a Kafka partition up to a place.

    ``present`` is the number of the one that goes on there.
    """

    lives: list[Life] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    stretches: dict[Cell, list[Stretch]] = field(default_factory=dict)
    present: int = 0

    def fall(self, kafka_partition: int, parts: tuple[Part, ...]) -> Fall:
        life = self.lives[self.present]
        passed = next((place for place, part in enumerate(parts, 1) if part.last > life.greatest), len(parts))
        parts = parts[:passed]
        least, most = parts[0].first, min(life.greatest, parts[-1].last)
        assert life.latest is not None, "a life begins with messages"
        lives = tuple(one.within(least, most) for one in self.lives)
        return Fall(kafka_partition, parts, self.present, life.greatest, life.latest, lives)

    def go_on(self, parts: tuple[Part, ...], fall: Fall, answer: Comparison) -> None:
        """Take note of the messages behind a fall."""
        if answer.life in (self.present, len(self.lives)):
            copies_until = fall.greatest if answer.life == self.present else -1
            self.add(parts, answer.life, copies_until=copies_until, doubts=answer.doubts)
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
            self.lives.append(
                Life(number, [], None if last is None else last.last, None if last is None else last.latest)
            )
        life = self.lives[number]
        self._put(parts, number, copies_until)
        for part in parts:
            life.add(part, copies_until=copies_until, doubts=doubts)
        self.present = number

    def _put(self, parts: Sequence[Part], number: int, copies_until: int) -> None:
        if not self.turns or self.turns[-1].life != number:
            self.turns.append(Turn(parts[0].epoch, parts[0].start, number))
        for part in parts:
            stretch = Stretch(part.start, part.stretch, number, copies_until)
            self.stretches.setdefault(part.cell, []).append(stretch)


def _stretches(rows: Sequence[IngestWindow]) -> Iterator[tuple[Part, ...]]:
    """Yield the runs that follow each other without a fall, over the borders of windows."""
    parts: list[Part] = []
    number = 0
    for row in rows:
        for run in row.runs:
            if parts and run.first.position < parts[-1].last:
                yield tuple(parts)
                parts, number = [], number + 1
            parts.append(Part(row.cell, row.epoch, row.generation, run, number, run.first_offset))
    if parts:
        yield tuple(parts)
