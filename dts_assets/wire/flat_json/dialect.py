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
from dts_assets.wire.flat_json.sent_values import NONE, SentCells

DML, DDL, CHECKPOINT = "DML", "DDL", "CHECKPOINT"
"""Message types of entries with rows, of statements, and of places up to which all was sent."""

DATA, OLD, NO_IMAGE = 0, 1, 2
"""The places of an image: a field of its message, or none."""

Images = tuple[Sequence[Any] | None, Sequence[Any] | None]
"""The rows before and after, None for an image that an operation has not."""


class Dialect(Protocol):
    """The points in which flat messages of several programs differ.

    ``ids_are_places`` says that the place of a message is its ``id``, ``changed_only`` that rows of ``old`` in an UPDATE have
    changed columns only.
    """

    @property
    def ids_are_places(self) -> bool:
        """True if the place of a message is its ``id``."""
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

    def place(self, head: Head) -> int | None:
        """Return the number by which a message stands in the source's log; None where it tells none."""
        ...

    def columns_of(self, head: Head) -> Described | None:
        """Return the columns that a head describes; None if they cannot be read."""
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

    def unsent(self, values: pa.Array, cells: SentCells) -> npt.NDArray[np.int64]:
        """Return the numbers of values in new rows that say that a value was not sent."""
        ...

    def restored(
        self,
        values: pa.Array,
        starts: npt.NDArray[np.int32],
        list_numbers: npt.NDArray[np.int64],
        lists: Sequence[ColumnList],
    ) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """Return values as the server has them, where messages show them otherwise and columns' types say how.

        With them come the numbers of values that stand for nothing in their columns. ``starts`` are the numbers of each row's
        first value, ``list_numbers`` its column list in ``lists``, -1 without values.
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

    def columns_of(self, head: Head) -> Described | None:
        """Return the columns that a head describes; None if they cannot be read."""
        return described(bytes(head.types), bytes(head.pkNames))

    def unsent(self, values: pa.Array, cells: SentCells) -> npt.NDArray[np.int64]:
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

    def place(self, head: Head) -> int | None:
        """Return the ``id`` of a message."""
        return head.id

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
    ) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """Return the values: types are sent without arguments and tell nothing more."""
        return values, NO_CELLS


def images_of_all(
    dialect: Dialect, operations: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the rows before and after of messages stand, and how many they are.

    Messages of one operation with equal numbers of rows are alike. The first result has a row for each of both images, with
    :data:`DATA`, :data:`OLD` or :data:`NO_IMAGE`. ``counts`` are the numbers of rows of ``data`` and of ``old``,
    :data:`dts_assets.wire.flat_json.sent_values.NONE` for null.

    Raises:
        Refused: an operation is not known, an image is missing, or images differ in their number of rows.
    """
    if (operations == NONE).any():
        raise Refused(Reason.UNKNOWN_OPERATION, "its type is not known")
    most = int(counts.max()) + 2
    numbers = (operations * most + counts[0] + 1) * most + counts[1] + 1
    alike, of_messages = np.unique(numbers, return_inverse=True)
    found = []
    for number in alike.tolist():
        data, old = (None if size < 0 else range(size) for size in (number // most % most - 1, number % most - 1))
        before, after = dialect.images(number // most // most, data, old)
        sides = (NO_IMAGE if image is None else OLD if image is old else DATA for image in (before, after))
        found.append((*sides, len(before or ()) if after is None else len(after)))
    *images, rows = np.asarray(found).T[:, of_messages]
    return np.asarray(images), rows
