"""The sum of a snapshot's rows, as a value that stands in each commit of the snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

SUMS_PROPERTY = "dts-assets.row-sums"
"""The property of a snapshot commit that holds the sum of its rows."""


@dataclass(frozen=True, slots=True)
class StoredSums:
    """The exact sum over the rows that live, and the columns that it is made of.

    ``total`` is None where nobody has added up the rows that stand. ``columns`` has the form of each column's texts by its field
    id, ``field`` is the id of the column with the rows' own sums. A sum of a row that stands may be of other columns where this
    ``is_doubtful``: then only rows that are all written anew have a total.
    """

    total: int | None
    columns: Mapping[int, str] = field(default_factory=dict)
    field: int = 0
    is_doubtful: bool = False

    def to_text(self) -> str:
        """Return the text that stands in the properties of a commit."""
        columns = " ".join(f"{tag}:{kind.replace(' ', '/')}" for tag, kind in sorted(self.columns.items()))
        total = None if self.total is None else str(self.total)
        return json.dumps({"total": total, "columns": columns, "field": self.field, "doubtful": self.is_doubtful})

    @classmethod
    def of_text(cls, text: str | None) -> StoredSums | None:
        """Return the inverse of :meth:`to_text`; None for a commit without a sum."""
        if text is None:
            return None
        raw = json.loads(text)
        pairs = (one.partition(":") for one in raw["columns"].split())
        columns = {int(tag): kind.replace("/", " ") for tag, _, kind in pairs}
        total = None if raw["total"] is None else int(raw["total"])
        return cls(total, columns, raw["field"], raw["doubtful"])


@dataclass(frozen=True, slots=True)
class SumChange:
    """The work of tasks on a sum.

    It has the sums of the rows that changes ``made``, of rows that were ``kept`` in new files, and of rows that are ``gone``.
    """

    made: int = 0
    kept: int = 0
    gone: int = 0

    def __add__(self, other: SumChange) -> SumChange:
        return SumChange(self.made + other.made, self.kept + other.kept, self.gone + other.gone)


NO_CHANGE = SumChange()


@dataclass(frozen=True, slots=True)
class SumPlan:
    """The way in which a merge goes on with the sum of its table.

    ``columns`` are those of the rows to be, ``before`` is the sum of the rows that stand. ``anew`` says that no row stays as it
    stands in a file.
    """

    columns: Mapping[int, str]
    field: int
    before: StoredSums | None
    anew: bool

    @property
    def goes_on(self) -> bool:
        """True if the sum of before can be carried on: its columns are still there, with equal texts."""
        before = self.before
        return (
            before is not None
            and not before.is_doubtful
            and before.field == self.field
            and before.columns.items() <= self.columns.items()
        )

    @property
    def counts_gone(self) -> bool:
        """True if the rows that leave have to be added up."""
        return not self.anew and self.goes_on and self.before is not None and self.before.total is not None

    def behind(self, change: SumChange) -> StoredSums:
        """Return the sum behind what tasks did."""
        if self.anew:
            return StoredSums(change.made + change.kept, self.columns, self.field)
        if self.counts_gone:
            assert self.before is not None, "it is known"
            assert self.before.total is not None, "it is known"
            return StoredSums(self.before.total + change.made - change.gone, self.columns, self.field)
        before = self.before
        doubtful = before is not None and before.field == self.field and not self.goes_on
        return StoredSums(None, self.columns, self.field, is_doubtful=doubtful)
