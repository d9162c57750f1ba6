"""Lives: what a Kafka partition shows of a lineage where messages carry ids of the vendor's task.

The task is made anew, ids begin again, and with them a life.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from dts_assets.model.runs import Run
from dts_assets.model.spans import Cell
from dts_assets.model.version import CODE_VERSION


@dataclass(frozen=True, slots=True)
class Part:
    """A run of a cell from an offset on.

    ``generation`` is the cell's. ``stretch`` numbers the runs between two falls of ids, over the borders of windows.
    """

    cell: Cell
    epoch: int
    generation: str
    run: Run
    stretch: int
    start: int

    @property
    def first(self) -> int:
        """The least id of the run."""
        return self.run.first.position

    @property
    def last(self) -> int:
        """The greatest id of the run."""
        return self.run.last.position


@dataclass(frozen=True, slots=True)
class PartElsewhere:
    """A run of another Kafka partition than the one in which ids fall.

    Ids up to ``passed`` had been passed there since the window of the fall: what has them may stand behind the same begin.
    """

    part: Part
    passed: int


@dataclass(frozen=True, slots=True)
class Fall:
    """A place where ids fall, and all that its meaning depends on.

    ``parts`` are the runs behind it in which ids may have been passed. ``life`` is the present one, with its greatest id and
    its latest time; ``lives`` has the parts of every life that have such ids, ``elsewhere`` those of other Kafka partitions in
    the windows until then.
    """

    kafka_partition: int
    parts: tuple[Part, ...]
    life: int
    greatest: int
    latest: datetime
    lives: tuple[tuple[Part, ...], ...]
    elsewhere: tuple[PartElsewhere, ...] = ()

    @property
    def cell(self) -> Cell:
        """The cell in which ids fall."""
        return self.parts[0].cell

    @property
    def offset(self) -> int:
        """The offset of the first message behind the fall."""
        return self.parts[0].start

    @property
    def first(self) -> int:
        """The least id behind the fall."""
        return self.parts[0].first

    @property
    def passed(self) -> int:
        """The greatest id behind the fall that had been passed before it."""
        return min(self.greatest, self.parts[-1].last)

    @property
    def inputs(self) -> str:
        """A digest of all that is compared."""
        facts: list[object] = [CODE_VERSION, self.kafka_partition, self.life, self.greatest, self.latest.isoformat()]
        facts += [_text(part) for part in self.parts]
        facts += [(number, _text(part)) for number, parts in enumerate(self.lives) for part in parts]
        facts += [("elsewhere", one.passed, _text(one.part)) for one in self.elsewhere]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Entries of a cell from an offset on.

    ``number`` is that of their stretch of growing ids, ``life`` their life. ``copies_until`` is the greatest id that may be a
    copy, -1 where there can be none.
    """

    offset: int
    number: int
    life: int
    copies_until: int


@dataclass(frozen=True, slots=True)
class Turn:
    """From an offset on, messages belong to a life."""

    epoch: int
    offset: int
    life: int


@dataclass(frozen=True, slots=True)
class LifeBehind:
    """The facts of a life that settled windows tell to later ones.

    ``begin`` and ``last`` are its first and its last part, ``before`` is the last part before it, None for the first life.
    ``latest_before`` and ``latest`` are the latest times until then. ``ids`` are the least and the greatest id of its parts.
    """

    number: int
    begin: Part
    before: Part | None
    latest_before: datetime | None
    greatest: int
    latest: datetime
    last: Part
    ids: tuple[int, int]


@dataclass(frozen=True, slots=True)
class LivesBehind:
    """The facts of the lives of a Kafka partition that settled windows tell to later ones.

    ``present`` is the life that goes on, ``stretch`` the number of the stretch that does; ``copies_until`` and ``doubts`` are
    what the fall before it has told. ``last`` is the last part, None before the first one; ``cells`` end with its id. ``open``
    are the parts behind a fall behind which ids that had been passed are not passed again yet: the other facts are those before
    it.
    """

    kafka_partition: int
    lives: tuple[LifeBehind, ...] = ()
    turns: tuple[Turn, ...] = ()
    present: int = 0
    stretch: int = 0
    copies_until: int = -1
    doubts: int = 0
    last: Part | None = None
    cells: tuple[Cell, ...] = ()
    open: tuple[Part, ...] = ()


def _text(part: Part) -> tuple[object, ...]:
    run = part.run
    return (str(part.cell), part.epoch, part.generation, part.stretch, part.start, run.first_offset, run.last_offset)
