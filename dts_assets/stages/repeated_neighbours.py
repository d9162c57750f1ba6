"""Neighbours with the same id that say the same: copies, or pieces of one event.

An event may come in several messages, which then have one id and follow each other. A producer that sends twice makes neighbours
of one id, too. In a table with a key no event changes a row twice, so that equal messages are copies; without a key nobody can
tell. A clean stream costs the digest of one message per batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.stages.entry_columns import DDL, DML, EntryColumns
from dts_assets.wire.format import WireFormat

Rows: TypeAlias = npt.NDArray[np.int64]

MOST_PIECES = 1024
"""Pieces of one event that later ones are compared with: the first ones.

It bounds the state of an open window.
"""


@dataclass(slots=True)
class NeighbourTracker:
    """Finds equal neighbours of one Kafka partition and window. Feed it every batch in offset order.

    ``id`` is that of the last message, ``said`` has the digests of all messages with it. ``doubtful`` counts the messages of
    which nobody can tell whether they are copies, from offset ``first`` to ``last``.
    """

    id: int = -1
    said: list[int] = field(default_factory=list)
    doubtful: int = 0
    first: int = -1
    last: int = -1

    def see(self, payloads: pa.Array, columns: EntryColumns, wire: WireFormat) -> Rows:
        """Take note of a batch's entries, given with their payloads; return the rows that are surely copies."""
        rows: Rows = np.flatnonzero((columns.kinds == DML) | (columns.kinds == DDL))
        if not len(rows):
            return rows
        ids = columns.positions[rows]
        goes_on = ids == np.concatenate(([self.id], ids[:-1]))
        beside = goes_on | np.append(goes_on[1:], True)  # the next batch may go on with the last message's id
        rows, ids, goes_on = rows[beside], ids[beside], goes_on[beside]
        digests = wire.contents(payloads.take(pa.array(rows)))
        equal = self._equal(ids.tolist(), goes_on.tolist(), digests.tolist())
        equal &= columns.kinds[rows] == DML
        rows = rows[equal]
        if not len(rows):
            return rows
        copies = wire.has_key(payloads.take(pa.array(rows)))
        self._doubt(columns.offsets[rows[~copies]])
        sure: Rows = rows[copies]
        return sure

    def problems(self) -> Iterator[Problem]:
        """Yield the problem that the doubtful messages are."""
        if self.doubtful:
            detail = (
                f"{self.doubtful} messages say what a neighbour with the same id said, of tables without a key: copies or"
                " pieces of one event; their changes were kept"
            )
            yield Problem(ProblemCode.ID, self.first, self.last, detail)

    def _equal(self, ids: list[int], goes_on: list[bool], digests: list[int]) -> npt.NDArray[np.bool_]:
        """Tell which messages are equal to one before them with the same id."""
        equal, said = np.zeros(len(ids), np.bool_), set(self.said)
        for row, (same, digest) in enumerate(zip(goes_on, digests, strict=True)):
            if not same:
                said = set()
            equal[row] = digest in said
            if len(said) < MOST_PIECES:
                said.add(digest)
        self.id, self.said = ids[-1], sorted(said)
        return equal

    def _doubt(self, offsets: Rows) -> None:
        if len(offsets):
            self.first = int(offsets[0]) if not self.doubtful else self.first
            self.last = int(offsets[-1])
            self.doubtful += len(offsets)
