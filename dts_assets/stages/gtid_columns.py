"""Columns of GTIDs, and the sets that are gathered from them.

The rules are those of :mod:`dts_assets.model.gtids`; here they work on whole columns, where each distinct text is read once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.gtids import MOST_DIGITS, MOST_NAME, SERVER_AND_NUMBER, GtidSet, gtid_source, is_domain
from dts_assets.wire.columns.buffers import rows_by_code

MOST_INTERVALS = 10_000
"""Intervals kept. A Kafka partition that has BEGIN and COMMIT of every other transaction alone has an interval for each."""

Rows: TypeAlias = npt.NDArray[np.int64]
"""Whole numbers; of a collector a row per interval: its first and last number."""


@dataclass(frozen=True, slots=True)
class GtidColumn:
    """GTIDs of entries, as codes into distinct texts.

    ``codes`` has one number per entry, the place of its text in ``texts``, or -1 without a GTID.

    ``numbers`` and ``servers`` say per text what ``server_and_number`` of the model says, servers as places in ``names``. Both
    are -1 for a text that is no GTID, and end with one -1 more, which the code -1 finds.
    """

    texts: pa.StringArray
    codes: Rows
    numbers: Rows
    servers: Rows
    names: list[str]

    @classmethod
    def of(cls, texts: pa.StringArray) -> GtidColumn:
        """Return the column of some texts; null stands for an entry without a GTID."""
        encoded = texts.dictionary_encode()
        codes = pc.fill_null(encoded.indices, -1) if texts.null_count else encoded.indices
        numbers, servers, names = _read(encoded.dictionary)
        codes = codes.to_numpy().astype(np.int64)
        return cls(encoded.dictionary, codes, np.append(numbers, -1), np.append(servers, -1), names)

    def take(self, rows: Rows) -> GtidColumn:
        """Return the GTIDs of some entries."""
        return replace(self, codes=self.codes[rows])

    def text(self, code: int) -> str | None:
        """Return the text of a code, None for -1."""
        return None if code < 0 else self.texts[code].as_py()

    def row_numbers(self) -> tuple[Rows, Rows]:
        """Return number and server of each entry, -1 without a readable GTID."""
        return self.numbers[self.codes], self.servers[self.codes]


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

    def add(self, gtids: GtidColumn) -> tuple[Rows, Rows]:
        """Put GTIDs in; return the place in ``names`` of each one's source, and its number.

        Both are -1 without a GTID and for nonsense.
        """
        numbers, servers = gtids.row_numbers()
        known = np.full(len(gtids.names) + 1, -1, np.int64)
        for server in range(len(gtids.names)) if len(gtids.names) == 1 else np.unique(servers[servers >= 0]).tolist():
            known[server] = self._code(gtids.names[server])
        codes = np.where(numbers < 1, -1, known[servers])  # transactions are counted from 1
        self.unreadable += int(np.count_nonzero(codes < 0)) - int(np.count_nonzero(gtids.codes < 0))
        numbers = np.where(codes < 0, -1, numbers)
        if len(codes) and not self.scattered:
            for code, rows in rows_by_code(codes):
                self._put(code, numbers if len(rows) == len(numbers) else numbers[rows])
            if sum(map(len, self.held.values())) > MOST_INTERVALS:
                self.scattered = True
                self.held.clear()
        return codes, numbers

    def result(self) -> GtidSet | None:
        """Return the set, or None if it is too scattered to be kept."""
        if self.scattered:
            return None
        names = self.names
        return GtidSet.of(
            (names[code], first, last) for code, held in self.held.items() for first, last in held.tolist()
        )

    def _code(self, name: str) -> int:
        """Return the code of a source, -1 for a text that names none in the set's dialect."""
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


def _read(texts: pa.StringArray) -> tuple[Rows, Rows, list[str]]:
    """Return number, server and the servers' names of distinct texts: ``server_and_number`` of the model, in columns."""
    if not len(texts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), []
    text = texts[0].as_py()
    cut = max(text.rfind(":"), text.rfind("-")) + 1
    if (
        1 < cut <= MOST_NAME + 1 and pc.all(pc.starts_with(texts, text[:cut])).as_py()
    ):  # one server, as mostly: no pattern is needed
        digits = pc.utf8_slice_codeunits(texts, cut)
        short = pc.max(pc.binary_length(digits)).as_py() <= MOST_DIGITS
        if short and pc.all(pc.ascii_is_decimal(digits)).as_py() and "\n" not in text:
            return pc.cast(digits, pa.int64()).to_numpy(), np.zeros(len(texts), np.int64), [text[: cut - 1]]
    parts = pc.extract_regex(texts, f"^(?:{SERVER_AND_NUMBER})$")
    names = pc.struct_field(parts, "server").dictionary_encode()  # null where the whole is: its own field is not
    numbers = pc.fill_null(pc.cast(pc.struct_field(parts, "number"), pa.int64()), -1).to_numpy()
    servers = pc.fill_null(names.indices, -1).to_numpy().astype(np.int64)
    return numbers, servers, names.dictionary.to_pylist()
