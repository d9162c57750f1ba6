"""Columns of GTIDs to sets of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.gtids import GtidSet, gtid_source, is_domain
from dts_assets.stages.run_tracker import gtid_numbers

MOST_INTERVALS = 10_000
"""Intervals kept: a Kafka partition that gets the marks of every other transaction alone has one for each."""

Rows: TypeAlias = npt.NDArray[np.int64]
"""Whole numbers; of a collector a row per interval: its first and last number."""


@dataclass(slots=True, eq=False)
class GtidCollector:
    """Gathers transactions as intervals of numbers per source. ``unreadable`` counts texts that are no GTID of one dialect.

    ``codes`` numbers the sources, ``held`` has the intervals (first and last number) of each, by its code.
    """

    codes: dict[str, int] = field(default_factory=dict)
    unreadable: int = 0
    held: dict[int, Rows] = field(default_factory=dict)
    scattered: bool = False

    @property
    def names(self) -> list[str]:
        """The sources, each at the place that its code names."""
        return list(self.codes)

    def add(self, texts: pa.StringArray) -> tuple[Rows, Rows]:
        """Put GTIDs in. Gives the source of each by its place in ``names``, and its number; -1 for none, and for nonsense."""
        numbers, of, names = _parts(texts)
        known = np.array([self._code(name) for name in names] or [-1], np.int64)
        codes = np.where(of < 0, -1, known[of])
        self.unreadable += int((codes < 0).sum()) - texts.null_count
        numbers = np.where(codes < 0, -1, numbers)
        if len(codes) and not self.scattered:
            one = codes[0] >= 0 and bool(
                np.all(codes == codes[0])
            )  # mostly: looking for others would cost more than the rest
            for code in codes[:1].tolist() if one else np.unique(codes[codes >= 0]).tolist():
                self._put(code, numbers if one else numbers[codes == code])
        return codes, numbers

    def result(self) -> GtidSet | None:
        """The set, or None if it is too scattered to be kept."""
        if self.scattered:
            return None
        names = self.names
        return GtidSet.of(
            (names[code], first, last) for code, held in self.held.items() for first, last in held.tolist()
        )

    def _code(self, name: str) -> int:
        """The number of a source as GTIDs write it; -1 for what is none, and for one of another dialect than the first."""
        try:
            source = gtid_source(name)
        except ValueError:
            return -1
        if self.codes and is_domain(source) != is_domain(next(iter(self.codes))):
            return -1
        return self.codes.setdefault(source, len(self.codes))

    def _put(self, code: int, numbers: Rows) -> None:
        held = self.held.get(code)
        first = np.sort(numbers) if np.any(numbers[1:] < numbers[:-1]) else numbers
        starts = np.flatnonzero(np.diff(first, prepend=-1) > 1)
        new = np.column_stack((first[starts], first[np.append(starts[1:], len(first)) - 1]))
        if held is not None:
            both = np.concatenate((held, new))
            both = both[np.argsort(both[:, 0], kind="stable")]
            ends = np.maximum.accumulate(both[:, 1])
            starts = np.flatnonzero(np.concatenate(([True], both[1:, 0] > ends[:-1] + 1)))
            new = np.column_stack((both[starts, 0], ends[np.append(starts[1:], len(both)) - 1]))
        self.held[code] = new
        if sum(map(len, self.held.values())) > MOST_INTERVALS:
            self.scattered = True
            self.held.clear()


def _parts(texts: pa.StringArray) -> tuple[Rows, Rows, list[str]]:
    """As ``gtid_numbers``; where all GTIDs are of one server, as mostly, without taking each apart by a pattern."""
    if len(texts) and not texts.null_count:
        text = texts[0].as_py()
        cut = max(text.rfind(":"), text.rfind("-")) + 1
        if cut and pc.all(pc.starts_with(texts, text[:cut])).as_py():
            digits = pc.utf8_slice_codeunits(texts, cut)
            if pc.all(pc.ascii_is_decimal(digits)).as_py() and pc.max(pc.binary_length(digits)).as_py() <= 18:
                return pc.cast(digits, pa.int64()).to_numpy(), np.zeros(len(texts), np.int64), [text[: cut - 1]]
    return gtid_numbers(texts)
