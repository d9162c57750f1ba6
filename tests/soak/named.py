"""All that is named of a topic with faults: by the ledger, the quarantine and the list of redeliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dts_assets.model.problems import Completeness, ProblemCode
from dts_emulator.faults.damage import FoundBy
from dts_emulator.faults.injection import Fault
from tests.soak.pipeline import Ingested

if TYPE_CHECKING:
    from tests.soak.mutations import Mutated

DOUBTS = (f"{ProblemCode.ID}:", f"{ProblemCode.LINEAGES}:")
"""The beginning of alarms that say that identity or order is not proven."""

NEAR = 2
"""Messages between a fault and what names it: a loss shows at the next message, of a transaction at the next of its marks."""


class Named:
    """All places that the ledger, the quarantine and the list of redeliveries name, by Kafka partition and offset."""

    def __init__(self, mutated: Mutated) -> None:
        self.alarms: list[tuple[int, int, int, str]] = []
        self._cells: list[Ingested] = []
        self._places: dict[int, npt.NDArray[np.int64]] = {}
        for cell, problem in mutated.judged.of_cells:
            if problem.first_offset is not None and problem.last_offset is not None:
                what = f"{problem.code}: {problem.detail}"
                self.alarms.append((cell.kafka_partition, problem.first_offset, problem.last_offset, what))
            elif problem.code is not ProblemCode.QUARANTINED:
                self._cells.append(mutated.outcome.cells[cell])
        for doubt in mutated.outcome.doubts:
            self.alarms.append((doubt.kafka_partition, doubt.offset, doubt.offset, f"{doubt.code}: {doubt.detail}"))
        for one in mutated.outcome.quarantine:
            self.alarms.append((one.cell.kafka_partition, one.first_offset, one.last_offset, one.reason))
        self._windows = [window for window, problem in mutated.judged.of_windows if problem.code is ProblemCode.GTIDS]
        self._mutated = mutated
        for partition, places in mutated.places.items():
            self._places[partition] = np.zeros(max(places.values(), default=0) + 64, np.int64)
        for partition, first, last, _ in self.alarms:
            self._places[partition][first : last + 1] = 1
        for partitions in (mutated.outcome.redelivered, mutated.outcome.invalid):
            for partition, offsets in partitions.items():
                self._places[partition][list(offsets)] = 1
        self._sums = {partition: np.cumsum(np.append(0, found)) for partition, found in self._places.items()}

    def doubted(self, partition: int, offset: int, *, in_cell: bool) -> bool:
        """Whether a problem says of an offset, or of any in its cell, that identity is not proven there."""
        low = high = offset
        if in_cell:
            cells = (cell for cell in self._mutated.outcome.cells.values() if cell.cell.kafka_partition == partition)
            low, high = next((of.start, of.end) for of in (one.offsets for one in cells) if of.start <= offset < of.end)
        return any(
            one == partition and first <= high and low <= last and what.startswith(DOUBTS)
            for one, first, last, what in self.alarms
        )

    def between(self, partition: int, first: int, last: int) -> bool:
        """Whether any place from ``first`` to ``last`` is named, or a whole cell there."""
        sums = self._sums[partition]
        low, high = max(0, min(first, len(sums) - 1)), max(0, min(last + 1, len(sums) - 1))
        return bool(sums[high] > sums[low]) or self._in_cell(partition, first, last)

    def near(self, fault: Fault) -> bool:
        """Whether a place near the fault is named: where it shows, or where its message was taken from."""
        here = fault.first_offset is not None and fault.last_offset is not None
        if here and self._at(fault.partition, fault.first_offset or 0, fault.last_offset or 0):
            return True
        before = self._mutated.places[fault.from_partition].get(fault.from_offset)
        return before is not None and self._at(fault.from_partition, before, before)

    def of_cell(self, fault: Fault) -> bool:
        """Whether something is reported of the cell or window that the fault is in."""
        if fault.first_offset is None:  # what ends inside a transaction is not proven
            return self._mutated.judged.windows[self._mutated.recording.windows[-1]] is not Completeness.PROVEN
        if self._in_cell(fault.partition, fault.first_offset - 1, fault.first_offset):
            return True
        if self._mutated.outcome.unknown and fault.found_by is FoundBy.DECODING:
            return True  # fields, data types and charsets of rows are counted over many windows at once
        return any(window.start <= fault.time < window.end for window in self._windows)

    def _at(self, partition: int, first: int, last: int) -> bool:
        sums = self._sums[partition]
        low, high = max(0, first - 1), min(last + 2, len(sums) - 1)
        return bool(sums[high] > sums[low])

    def _in_cell(self, partition: int, first: int, last: int) -> bool:
        return any(
            one.cell.kafka_partition == partition and one.offsets.start <= last and first < one.offsets.end
            for one in self._cells
        )
