"""Flat messages of DRS from sources with a schema level: PostgreSQL, GaussDB, SQL Server and Oracle.

The vendor's page is "Kafka Message Format" (drs_03_0052), table 4. ``columnType`` stands in the place of ``mysqlType``; Oracle
and SQL Server leave it empty, so that the columns of a message are those of its rows. An UPDATE may leave columns out that it did
not change: Oracle sends changed columns alone, and PostgreSQL logs no large value that an UPDATE leaves as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw, Struct
from msgspec.json import Decoder, encode

from dts_assets.model.problems import Reason
from dts_assets.model.source_types import ORACLE, source_type_of
from dts_assets.wire.columns.buffers import Bools, offsets_of
from dts_assets.wire.columns.json_texts import MALFORMED
from dts_assets.wire.flat_json.collection_messages import collection_head
from dts_assets.wire.flat_json.dialect import NO_CELLS, DrsDialect
from dts_assets.wire.flat_json.messages import (
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
)
from dts_assets.wire.flat_json.other_sources_head import NOT_SENT, SourceHead
from dts_assets.wire.flat_json.sent_values import SentCells

_UPDATE = OPERATIONS["UPDATE"]
_NO_TYPES = frozenset({b"null", b'""', b"{}"})


class _Rows(Struct, gc=False):
    """The rows of a message with the names of their columns."""

    data: list[dict[str, Raw]] | None = None
    old: list[dict[str, Raw]] | None = None


_FORM = HeadForm.of(SourceHead, Id, wanted_id="whole number from zero on", raw_fields=frozenset({"columnType"}))
_NAMED_ROWS = Decoder(_Rows)
_EVENTS = EventForm.of("columnType")


@dataclass(frozen=True, slots=True)
class DrsJsonDialect(DrsDialect):
    """The :class:`dts_assets.wire.flat_json.dialect.Dialect` of DRS JSON, as far as entries are concerned: of every source."""

    deleted_in_old: bool = True

    @property
    def form(self) -> HeadForm:
        """The form of heads."""
        return _FORM

    def head(self, message: bytes) -> tuple[Head, Mapping[str, str]]:
        """Return a message's head, and as text the fields that the vendor's tables do not have.

        A message without types has empty ones for the columns of its rows.

        Raises:
            Refused: the message is no JSON object, a field of it makes no sense, or it names no schema.
        """
        head: Head
        others: Mapping[str, str] = {}
        try:
            head = _FORM.whole.decode(message)
        except MALFORMED:
            if found := collection_head(message):
                return found
            head, others = head_of(message, _FORM)
        if not self.complete(head):
            head.types = Raw(_types_of_rows(message))
        return head, others

    def complete(self, head: Head) -> bool:
        """Give the head of a message that may be of another source the types of its columns.

        False stands for a head whose types only the rows of its message tell.

        Raises:
            Refused: it contradicts itself, or names no schema.
        """
        return self._look_at(cast(SourceHead, head))

    def _look_at(self, head: SourceHead) -> bool:
        if head.schema is None and head.dbType is None and head.columnType is NOT_SENT:
            return True
        untyped = bytes(head.columnType) in _NO_TYPES
        if untyped and head.schema is None and head.dbType is None:
            return True  # of the MySQL family, with a field that says nothing
        if bytes(head.types) not in _NO_TYPES:
            raise Refused(Reason.UNDECODABLE_ENTRY, "it has a mysqlType beside fields of other sources")
        if head.opType not in (None, "", head.type):
            raise Refused(Reason.UNKNOWN_OPERATION, "its type contradicts its opType")
        if head.type in OPERATIONS and not head.schema:
            raise Refused(Reason.UNDECODABLE_ENTRY, "it names no schema")
        if head.type in OPERATIONS and not head.database and source_type_of(head.dbType) != ORACLE:
            raise Refused(Reason.UNDECODABLE_ENTRY, "it names no database")
        if untyped and head.type in OPERATIONS:
            return False
        head.types = head.columnType
        return True


@dataclass(frozen=True, slots=True)
class OtherSourcesDialect(DrsJsonDialect):
    """The :class:`dts_assets.wire.flat_json.dialect.Dialect` of the rows of sources with a schema level.

    ``unchanged`` is the text that stands in an UPDATE for a large value which the UPDATE left as it was; None if there is none.
    """

    unchanged: str | None = None

    @property
    def events(self) -> EventForm:
        """The form of messages with rows."""
        return _EVENTS

    def described(self, event: Event, known: tuple[str, ...]) -> Described | None:
        """Return the columns of a message; None if they cannot be read.

        An UPDATE, and any message without types, leaves columns of its table out that it does not send: ``known`` has their
        names.
        """
        types = bytes(event.types)
        without_types = types in _NO_TYPES
        if without_types:
            types = _types_of(_names_in(event.data, event.old))
        return described(types, bytes(event.pkNames), known if without_types or event.type == "UPDATE" else ())

    def unsent(self, values: pa.Array, cells: SentCells) -> npt.NDArray[np.int64]:
        """Return the numbers of values in new rows that say that a value was not sent.

        In an UPDATE it is the text for unchanged values.
        """
        if self.unchanged is None:
            return NO_CELLS
        text = self.unchanged.encode()
        found, entries = cells.among(np.flatnonzero(np.diff(offsets_of(values)) == len(text)))
        alike = pc.fill_null(pc.equal(values.take(pa.array(found)), pa.scalar(text, pa.binary())), False)
        of_updates: Bools = (cells.operations[entries] == _UPDATE) & np.asarray(alike)
        return found[of_updates]


def _types_of_rows(message: bytes) -> bytes:
    """Return empty types, as JSON, for all columns of a message's rows.

    Raises:
        Refused: the rows cannot be read.
    """
    try:
        rows = _NAMED_ROWS.decode(message)
    except MALFORMED:
        raise Refused(Reason.UNDECODABLE_ENTRY, "its rows are no list of objects") from None
    return _types_of(_names_in(rows.data, rows.old))


def _names_in(*images: Sequence[Mapping[str, object]] | None) -> tuple[str, ...]:
    """Return the names of all columns of some rows, each once and in order."""
    return tuple(dict.fromkeys(name for rows in images for row in rows or () for name in row))


@lru_cache(maxsize=1 << 12)
def _types_of(names: Sequence[str]) -> bytes:
    """Return empty types as JSON: ``{"ID":"","NAME":""}``."""
    return encode(dict.fromkeys(names, ""))
