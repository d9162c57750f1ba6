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
class Fall:
    """A place where ids fall, and all that its meaning depends on.

    ``parts`` are the runs behind it in which ids may have been passed. ``life`` is the present one, with its greatest id and
    its latest time; ``lives`` has the parts of every life that have such ids.
    """

    kafka_partition: int
    parts: tuple[Part, ...]
    life: int
    greatest: int
    latest: datetime
    lives: tuple[tuple[Part, ...], ...]

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


def _text(part: Part) -> tuple[object, ...]:
    run = part.run
    return (str(part.cell), part.epoch, part.generation, part.stretch, part.start, run.first_offset, run.last_offset)
