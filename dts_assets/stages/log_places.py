"""Places in PostgreSQL's write-ahead log that do not order the entries which stand there.

Logical decoding tells transactions in the order of their commits, and each commit stands behind all commits before it. Rows of
one COPY share a place, and need no order. A task may give all changes of a transaction the place of its commit; then they have to
be ordered as they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.stages.entry_columns import COMMIT, DML, EntryColumns, Numbers

Place = tuple[int, int]


@dataclass(slots=True)
class LogPlaces:
    """The signs of unordered places in one shard of a Kafka partition and window. Feed it all placed entries in offset order.

    ``shared`` counts COMMITs at the place of the change before, and changes that go on at the place of the window's first entry.
    ``below`` counts COMMITs that are later than all before and do not stand behind all of them. Offsets of the first and the
    last one come with both. ``last`` is the place of the last entry, if it was a change; ``opening`` that of the first entry, as
    long as changes go on there. ``highest`` is the greatest place of a COMMIT, ``latest`` the latest time of one.
    """

    shared: int = 0
    shared_first: int = -1
    shared_last: int = -1
    below: int = 0
    below_first: int = -1
    below_last: int = -1
    begun: bool = False
    opening: Place = (-1, -1)
    last: Place = (-1, -1)
    highest: Place = (-1, -1)
    latest: int = -(1 << 62)

    def see(self, entries: EntryColumns) -> None:
        """Take note of entries of the shard (at least one), which all have a place."""
        self._see_shared(entries)
        commits = np.flatnonzero(entries.kinds == COMMIT)
        if len(commits):
            self._see_commits(entries.take(commits))

    def problems(self, shard: str) -> Iterator[Problem]:
        """Yield what places do not order."""
        of = f" of shard {shard}" if shard else ""
        if self.shared:
            detail = (
                f"{self.shared} transactions{of} tell changes at one place of the log: within each window they are ordered as"
                " they came"
            )
            yield Problem(ProblemCode.LINEAGES, self.shared_first, self.shared_last, detail)
        if self.below:
            detail = f"{self.below} transactions{of} committed later than others stand at or below them: another server's log"
            yield Problem(ProblemCode.LINEAGES, self.below_first, self.below_last, detail)

    def _see_shared(self, entries: EntryColumns) -> None:
        changes = entries.kinds == DML
        if not self.begun and changes[0]:
            self.opening = entries.place(0)
        same = np.append(entries.place(0) == self.last, entries.keys[1:] == entries.keys[:-1])
        after = np.append(self.last != (-1, -1), changes[:-1])
        opens = np.logical_and.accumulate(
            changes & (entries.keys == entries.keys[0]) & (entries.place(0) == self.opening)
        )
        rows: Numbers = np.flatnonzero(same & after & (opens | (entries.kinds == COMMIT)))
        self.opening = self.opening if opens.all() else (-1, -1)
        self.begun = True
        if len(rows):
            self.shared_first = int(entries.offsets[rows[0]]) if not self.shared else self.shared_first
            self.shared_last = int(entries.offsets[rows[-1]])
            self.shared += len(rows)
        self.last = entries.place(len(entries) - 1) if changes[-1] else (-1, -1)

    def _see_commits(self, commits: EntryColumns) -> None:
        keys, (file, position) = commits.keys, self.highest
        latest = np.maximum.accumulate(np.append(self.latest, commits.times))
        under = (commits.files < file) | ((commits.files == file) & (commits.positions <= position))
        under[1:] |= (keys[1:] <= np.maximum.accumulate(keys)[:-1]).astype(np.bool_)
        rows = np.flatnonzero(under & (commits.times > latest[:-1]))
        if len(rows):
            self.below_first = int(commits.offsets[rows[0]]) if not self.below else self.below_first
            self.below_last = int(commits.offsets[rows[-1]])
            self.below += len(rows)
        self.latest = int(latest[-1])
        self.highest = max(self.highest, commits.place(int(np.argmax(keys))))
