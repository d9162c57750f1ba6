"""The narrow interface of a wire format: bytes to fragments, to entries, to typed columns of every table.

Everything is columns: a method takes and returns Arrow batches, never a Python value per cell. Bad input never raises; it
comes back as :class:`Rejected` beside the batches, so that the rest of a window goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.model.columns import Column, ColumnShape
from dts_assets.model.formats import FormatSettings, FormatTraits
from dts_assets.model.problems import Reason
from dts_assets.model.tables import TableId
from dts_assets.model.taught_types import TaughtType

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

MESSAGES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""Kafka messages as a source gives them and as a capture holds them."""

FRAGMENTS = pa.schema(
    [
        ("shard", pa.string()),  # the ShardId header, "" without one
        ("sequence", pa.int64()),  # the ps header, null without one
        ("total", pa.int64()),
        ("index", pa.int64()),
        ("data", pa.binary()),  # a segment of the entry set's bytes
        ("is_null", pa.bool_()),  # a null or empty Kafka value: nothing to decode, and no error
        ("reason", pa.string()),  # a Reason if the message cannot be used, else null
    ]
)
"""One row per message, in the order of the messages."""

PROPERTIES = pa.map_(pa.string(), pa.string())

ENTRIES = pa.schema(
    [
        ("set_index", pa.int32()),  # which entry set of the call the entry came from
        ("entry_number", pa.int32()),  # its number in that set
        ("message_type", pa.string()),  # BEGIN, COMMIT, DML, DDL, ROLLBACK, HEARTBEAT, CHECKPOINT
        ("source_type", pa.string()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("gtid", pa.string()),
        ("transaction_id", pa.string()),
        ("thread_id", pa.int64()),
        ("server_id", pa.int64()),
        ("seq_id", pa.int64()),
        ("file_name", pa.string()),
        ("position", pa.int64()),
        ("database", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("rows", pa.int32()),  # of a DML entry, else null
        ("payload", pa.binary()),  # the entry's own bytes
        ("properties", PROPERTIES),
    ]
)
"""One row per entry. An empty text of the wire is null here, except in names of databases and tables of DML entries."""


MOST_CELLS = 1 << 21
"""The most cells, rows times columns, that a call decodes where it has fewer bytes.

They take some 50 to 90 bytes each at the peak: a value and marks of two images, and the name of a column that its row lacks.
An event of 8 KB, as MySQL makes them by default, has 1.7 million at most: rows of 5 bytes in a table of 1,017 columns.
"""

MOST_NAME_BYTES = 1 << 26
"""The most bytes of names in the lists of columns that rows of a table lack."""


class TooLargeError(Exception):
    """Input of a call that would take too much memory. Its text is a clause, which names no value.

    The caller gives fewer rows at a time; a row that is too large alone goes to quarantine.
    """


@dataclass(frozen=True, slots=True)
class Rejected:
    """An input that could not be decoded.

    ``index`` is its row in the call and ``entry_number`` the entry in it (None: all of it).
    """

    index: int
    entry_number: int | None
    reason: Reason
    detail: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns that an event of a table describes, in the source's order."""

    table: TableId
    columns: tuple[ColumnShape, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A CHECKPOINT: its row of the entry batch, and the position up to which all was sent.

    ``gtid_set`` are the GTIDs sent, if any. ``fake_gtid`` says that the task makes GTIDs up, because the server has none.
    """

    index: int
    file_name: str
    position: int
    gtid_set: str | None
    fake_gtid: bool = False


@dataclass(frozen=True, slots=True)
class DecodedEntries:
    """The entries of some entry sets.

    ``shapes`` are distinct, each with the row of ``batch`` that has its first event. ``unknown`` counts facts that were kept
    although this version does not know them. ``reads`` marks the entries of ``batch`` with rows of a full load, None where there
    are none.
    """

    batch: pa.RecordBatch
    rejected: tuple[Rejected, ...]
    shapes: Mapping[TableShape, int]
    checkpoints: tuple[Checkpoint, ...]
    unknown: Mapping[str, int]
    reads: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ToldKeys:
    """The primary keys that events told of a table's rows, or the lists of columns that they carried.

    ``distinct`` has each key as its columns, sorted: ``("id",)``, and no columns where the table had no key; of a list it has the
    digest of the event's columns. ``numbers`` says which of them each row has, None where there is one. There are none where
    events tell nothing of keys.
    """

    distinct: tuple[tuple[str, ...], ...] = ()
    numbers: npt.NDArray[np.int64] | None = None

    def of_rows(self, rows: slice | npt.NDArray[np.bool_]) -> ToldKeys:
        """Return the keys of some rows, by slice or mask."""
        return self if self.numbers is None else ToldKeys(self.distinct, self.numbers[rows])


NO_KEYS_TOLD = ToldKeys()


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The row changes of one table, in the order of the entries they came from.

    ``batch`` has the columns ``entry_index`` int32 (row of the entry batch), ``row_number`` int32 (in its event), ``op`` string
    (``insert``, ``update``, ``delete``), ``before`` and ``after`` structs with one field per column of the table asked for
    (a missing image is a null struct), ``absent`` list<string>, ``invalid`` map<string, string>. ``carried`` has the list of
    columns that the event of each row had, and ``json`` those of its columns whose values are JSON. ``own`` has the values of
    columns whose events had another type than the lake, by image and column (``after.n``): an array for each type, null in the
    rows that had another one.
    """

    table: TableId
    batch: pa.RecordBatch
    keys: ToldKeys = NO_KEYS_TOLD
    carried: ToldKeys = NO_KEYS_TOLD
    json: ToldKeys = NO_KEYS_TOLD
    own: Mapping[str, tuple[pa.Array, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DecodedChanges:
    """The changes of every wanted table.

    ``unsigned`` names types with UINTn values although their texts do not say so.
    """

    tables: tuple[TableChanges, ...]
    rejected: tuple[Rejected, ...]
    unsigned: frozenset[TaughtType]
    unknown: Mapping[str, int]


class ChangesFormat(Protocol):
    """The part of a format that makes changes of entries.

    Rows that were copied beside the stream have no other part.
    """

    traits: ClassVar[FormatTraits]

    @property
    def decoder(self) -> str:
        """The parser with its version; see :attr:`WireFormat.decoder`."""
        ...

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries; see :meth:`WireFormat.changes`."""
        ...


class WireFormat(Protocol):
    """One vendor encoding, as a frozen and picklable value made from a subscription's settings.

    It holds no state of a stream: every call stands alone. The class loads no engine before the first call of a method.
    """

    traits: ClassVar[FormatTraits]

    @classmethod
    def of(cls, settings: FormatSettings) -> Self:
        """Return the format for a subscription.

        Raises:
            WireFormatError: the format cannot be made from the settings.
        """
        ...

    @property
    def entries_fingerprint(self) -> str:
        """A short text of the format and the settings that entries depend on.

        Another text makes stored entries stale.
        """
        ...

    @property
    def changes_fingerprint(self) -> str:
        """A short text of the format and the settings that typed rows depend on.

        Another text makes stored changes stale.
        """
        ...

    @property
    def decoder(self) -> str:
        """The parser with its version, for people who compare runs: ``ptars 0.0.25``."""
        ...

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return FRAGMENTS of a batch of MESSAGES, row for row."""
        ...

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """Return the entries of whole entry sets (a binary array, one joined set per row).

        Raises:
            TooLargeError: The entries would take far more memory than the sets have bytes.
        """
        ...

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """Return the row changes of DML entries, of the columns ``payload``, ``database``, ``schema``, ``table``.

        ``tables`` names the columns and types to produce; entries of other tables are passed over. A column that an event
        does not carry is null and not absent; a column that it carries and ``tables`` lacks is passed over.

        Raises:
            TooLargeError: The entries announce more than :data:`MOST_CELLS` cells, and have fewer bytes.
        """
        ...

    def contents(self, payloads: pa.Array) -> npt.NDArray[np.int64]:
        """Return a digest per entry of what it says.

        When it was sent, its number and its time are left aside. Entries with equal numbers are copies if their digests are
        equal.
        """
        ...

    def has_key(self, payloads: pa.Array) -> npt.NDArray[np.bool_]:
        """Tell of each DML entry whether it names the key of its table.

        Entries of a table without a key can be equal without being copies.
        """
        ...

    def column_type(self, original_type: str, *, unsigned: bool, table: TableId) -> str:
        """Return the lake type of a column of a table.

        Tables with a schema are of other sources than the MySQL family, and have other types.
        """
        ...
