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
    Head,
    HeadForm,
    Id,
    Refused,
    head_of,
    images_of,
)

DML, DDL = "DML", "DDL"
"""Message types of entries with rows, and of statements."""

Images = tuple[Sequence[Any] | None, Sequence[Any] | None]
"""The rows before and after, None for an image that an operation has not."""


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


@dataclass(frozen=True, slots=True)
class DrsDialect:
    """The :class:`Dialect` of Huawei Cloud DRS; ``deleted_in_old`` says where a deleted row stands."""

    deleted_in_old: bool
    ids_are_places: bool = True
    changed_only: bool = False

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
