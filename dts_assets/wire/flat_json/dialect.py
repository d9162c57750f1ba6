"""The ways in which programs write flat messages: where they differ, the decoder asks the dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.problems import Reason
from dts_assets.wire.columns.table_rows import ColumnList
from dts_assets.wire.flat_json.messages import (
    DDL_TYPES,
    OPERATIONS,
    Described,
    Event,
    EventForm,
    Head,
    HeadForm,
    Id,
    Refused,
    described,
    head_of,
    images_of,
)

DML, DDL = "DML", "DDL"
"""Message types of entries with rows, and of statements."""

Images = tuple[Sequence[Any] | None, Sequence[Any] | None]
"""The rows before and after, None for an image that an operation has not."""


@dataclass(frozen=True, slots=True)
class SentCells:
    """The values of one image of all entries, one behind the other.

    ``starts`` has the number of each entry's first value, -1 where it has no such image. ``operations`` are those of entries, and
    ``keyed`` says whether their table has a key.
    """

    starts: npt.NDArray[np.int64]
    operations: npt.NDArray[np.int64]
    keyed: npt.NDArray[np.bool_]

    def entries_of(self, cells: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the entry of each of some values."""
        owners = np.flatnonzero(self.starts >= 0)
        return owners[np.searchsorted(self.starts[owners], cells, side="right") - 1]


class Dialect(Protocol):
    """The points in which flat messages of several programs differ.

    ``ids_are_places`` says that ``id`` tells where a change stands, ``changed_only`` that rows of ``old`` in an UPDATE have
    changed columns only.
    """

    @property
    def ids_are_places(self) -> bool:
        """True if ``id`` tells where a change stands."""
        ...

    @property
    def changed_only(self) -> bool:
        """True if rows of ``old`` in an UPDATE have changed columns only."""
        ...

    @property
    def events(self) -> EventForm:
        """The form of messages with rows."""
        ...

    @property
    def form(self) -> HeadForm:
        """The form of heads."""
        ...

    def complete(self, head: Head) -> bool:
        """Complete a head that was read by the form alone; False if more of its message is needed.

        Raises:
            Refused: the head contradicts itself.
        """
        ...

    def head(self, message: bytes) -> tuple[Head, Mapping[str, str]]:
        """Return a message's head, and as text the fields that the dialect does not have.

        Raises:
            Refused: the message is no JSON object, or a field of it makes no sense.
        """
        ...

    def gtid(self, head: Head) -> str | None:
        """Return the GTID, or the set of GTIDs, that a message tells; None where it tells none."""
        ...

    def message_type(self, head: Head) -> str:
        """Return the message type of a message's entry, ``DML`` if it has rows.

        There is an operation for the ``type`` of such a message.

        Raises:
            Refused: the type is not known, or contradicts ``isDdl``.
        """
        ...

    def images(self, operation: int, data: Sequence[Any] | None, old: Sequence[Any] | None) -> Images:
        """Return the before and after images of an operation's rows, as they were sent.

        Raises:
            Refused: an image is missing, or the images differ in their number of rows.
        """
        ...

    def described(self, event: Event, known: tuple[str, ...]) -> Described | None:
        """Return the columns of a message; None if they cannot be read.

        ``known`` are the names of its table's columns.
        """
        ...

    def unsent(self, values: pa.Array, cells: SentCells, *, old: bool) -> npt.NDArray[np.int64]:
        """Return the numbers of values that say that a value was not sent, in old or new rows."""
        ...

    def restored(
        self,
        values: pa.Array,
        starts: npt.NDArray[np.int32],
        list_numbers: npt.NDArray[np.int64],
        lists: Sequence[ColumnList],
    ) -> pa.Array:
        """Return values as the server has them, where messages show them otherwise and columns' types say how.

        ``starts`` are the numbers of each row's first value, ``list_numbers`` its column list in ``lists``, -1 without values.
        """
        ...


_FORM = HeadForm.of(Head, Id, wanted_id="whole number from zero on")
MYSQL_EVENTS = EventForm.of("mysqlType")
NO_CELLS = np.zeros(0, np.int64)


class OfMysqlFamily:
    """The points in which all dialects of the MySQL family are alike.

    ``mysqlType`` describes every column of a row.
    """

    __slots__ = ()

    @property
    def events(self) -> EventForm:
        """The form of messages with rows."""
        return MYSQL_EVENTS

    def described(self, event: Event, known: tuple[str, ...]) -> Described | None:
        """Return the columns of a message; None if they cannot be read."""
        return described(bytes(event.types), bytes(event.pkNames))

    def unsent(self, values: pa.Array, cells: SentCells, *, old: bool) -> npt.NDArray[np.int64]:
        """Return none: a column that was not sent is not there."""
        return NO_CELLS


@dataclass(frozen=True, slots=True)
class DrsDialect(OfMysqlFamily):
    """The :class:`Dialect` of Huawei Cloud DRS; ``deleted_in_old`` says where a deleted row stands."""

    deleted_in_old: bool
    ids_are_places: bool = True
    changed_only: bool = False

    @property
    def form(self) -> HeadForm:
        """The form of heads."""
        return _FORM

    def complete(self, head: Head) -> bool:
        """Return True: a head says all."""
        return True

    def head(self, message: bytes) -> tuple[Head, Mapping[str, str]]:
        """Return a message's head, and as text the fields that the vendor's table does not have.

        Raises:
            Refused: the message is no JSON object, or a field of it makes no sense.
        """
        return head_of(message, _FORM)

    def gtid(self, head: Head) -> str | None:
        """Return None: DRS sends no GTIDs."""
        return None

    def message_type(self, head: Head) -> str:
        """Return the message type of a message's entry.

        Raises:
            Refused: the type is not known, or contradicts ``isDdl``.
        """
        found = DDL if head.type in DDL_TYPES else DML
        if found == DML and head.type not in OPERATIONS:
            raise Refused(Reason.UNKNOWN_OPERATION, "its type is not known")
        if head.isDdl is not None and head.isDdl != (found == DDL):
            raise Refused(Reason.UNKNOWN_OPERATION, "its type contradicts its isDdl")
        return found

    def images(self, operation: int, data: Sequence[Any] | None, old: Sequence[Any] | None) -> Images:
        """Return the before and after images of an operation's rows.

        Raises:
            Refused: an image is missing, or the images differ in their number of rows.
        """
        return images_of(operation, data, old, deleted_in_old=self.deleted_in_old)

    def restored(
        self,
        values: pa.Array,
        starts: npt.NDArray[np.int32],
        list_numbers: npt.NDArray[np.int64],
        lists: Sequence[ColumnList],
    ) -> pa.Array:
        """Return the values: types are sent without arguments and tell nothing more."""
        return values
