"""The interfaces by which an encoding gives its messages: block by block, as columns by role."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.buffers import Bools
from dts_assets.wire.columns.image_parts import ImagePart
from dts_assets.wire.columns.integers import Integers
from dts_assets.wire.columns.table_rows import ColumnList

Ints = npt.NDArray[np.int64]

Faults: TypeAlias = Iterator[tuple[Bools, Reason, str]]
"""Faults for which records cannot be used, each with the records of a block that have it."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A message that is no record, by its number in the call.

    ``entry_number`` is None where nothing of the message can be read.
    """

    number: int
    entry_number: int | None
    reason: Reason
    detail: str


class HeadBlock(Protocol):
    """Records of a block without the values of their rows, by the roles of :data:`dts_assets.wire.dts_records.FIELDS`.

    ``rows`` are the numbers of the records among all messages of the call.
    """

    @property
    def rows(self) -> Ints:
        """The numbers of the records among all messages."""
        ...

    @property
    def unread(self) -> Sequence[Unread]:
        """The messages of the block that are no records."""
        ...

    def __len__(self) -> int: ...

    def take(self, rows: Ints) -> Self:
        """Return some of the records, in this order."""
        ...

    def texts(self, role: str) -> pa.Array:
        """Return a role's values as bytes, null where there is none."""
        ...

    def integers(self, role: str) -> Integers:
        """Return a role's values as whole numbers."""
        ...

    def column_lists(self) -> tuple[Ints, Sequence[ColumnList | None]]:
        """Return the number of each record's column list, and the distinct lists.

        None is a list that cannot be read.
        """
        ...

    def has_image(self, role: str) -> Bools:
        """Return which records have a value at least in ``before`` or ``after``."""
        ...

    def faults(self) -> Faults:
        """Yield the faults that only this encoding can have."""
        ...

    def pairs(self) -> pa.ListArray | None:
        """Return tags, and fields that some records have, as lists of key and value in UTF-8."""
        ...

    def unknown(self) -> Mapping[str, int]:
        """Count the facts among the pairs that the vendor's table does not have."""
        ...

    def others(self) -> Iterable[tuple[str, pa.Array]]:
        """Return the fields of all records that the vendor's table does not have, each with its texts."""
        ...


@dataclass(frozen=True, slots=True)
class RowBlock:
    """The rows of a block: ``rows`` are the numbers of their records among all messages of the call.

    ``operations`` are the message types. ``codes`` say which of ``lists`` describes the columns of each record. Only this
    encoding can have the ``faults``.
    """

    rows: Ints
    unread: Sequence[Unread]
    operations: pa.Array
    codes: Ints
    lists: Sequence[ColumnList | None]
    before: ImagePart
    after: ImagePart
    faults: Sequence[tuple[Bools, Reason, str]] = ()
