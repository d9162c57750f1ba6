"""Copies of source tables, and the chunks that they are read in; their rows come from no Kafka."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from dts_assets.model.columns import ColumnShape
from dts_assets.model.foreign_keys import ForeignKey
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId

NO_KAFKA_PARTITION = -1
"""The number under which the ledger counts rows of copies, which have no Kafka partition."""


class CopyKind(StrEnum):
    """The reason of a copy.

    ``bootstrap``: the table begins with it. ``resync``: it takes the place of what the table had. ``repair``: single rows of it
    take the place of those with their keys.
    """

    BOOTSTRAP = "bootstrap"
    RESYNC = "resync"
    REPAIR = "repair"


class CopyState(StrEnum):
    """The progress of a copy.

    Its chunks are being read, all of them were, or a person has given it up. A copy is dropped with its table, or when the table
    is copied anew under other rules; no window takes it any more.
    """

    READING = "reading"
    COPIED = "copied"
    CANCELLED = "cancelled"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class CopiedChunk:
    """A part of a copy: the rows whose first key column lies above ``key_from`` and not above ``key_until``.

    The keys are texts of the source, None for no bound, and None once the copy has ended: they are values of rows. The rows are
    as they were at some position from ``low`` to ``high``; all of these are None before the chunk was read.
    """

    number: int
    key_from: str | None
    key_until: str | None
    low: SourcePosition | None = None
    high: SourcePosition | None = None
    rows: int | None = None
    read_at: datetime | None = None

    @property
    def is_read(self) -> bool:
        """True if the rows of the chunk are in the lake."""
        return self.rows is not None


@dataclass(frozen=True, slots=True)
class PassedRule:
    """A rule that a column of a copy has passed at the writing, by its digest."""

    column: str
    rule: str


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A row of ``copied_tables``: a copy of a source table, made beside the stream.

    ``copy`` is its name, ``origin`` says where the rows came from, without secrets. ``columns`` are those of the table when it
    was copied. ``window_start`` is the start of the window whose changelogs have the rows; None before a run has taken them.
    ``server`` says how the database was known to be the topic's: "matches", or that a person said so, and why nobody could check
    it; empty for files.
    ``passed`` are the rules that columns have passed as they are stored, and ``passed_filter`` is the digest of the row filter
    that rows have passed; both name columns of the source. ``stored`` is the name under which the rows stand in the copied table,
    None for that of the copy. ``gone_at`` is the moment when they left together with the entries of their window.
    ``foreign_keys`` are those that the database showed for the table. ``proves`` says that with the rows of a repair all rows of
    the table are those of the source.
    """

    copy: str
    table: TableId
    kind: CopyKind
    state: CopyState
    origin: str
    columns: tuple[ColumnShape, ...]
    chunks: tuple[CopiedChunk, ...]
    began: datetime
    ended: datetime | None = None
    window_start: datetime | None = None
    server: str = field(default="", kw_only=True)
    passed: tuple[PassedRule, ...] = ()
    passed_filter: str | None = None
    stored: str | None = None
    gone_at: datetime | None = None
    foreign_keys: tuple[ForeignKey, ...] = field(default=(), kw_only=True)
    proves: bool = field(default=False, kw_only=True)

    @property
    def part(self) -> str:
        """The name under which the rows stand in the copied table."""
        return self.stored or self.copy

    @property
    def has_rows(self) -> bool:
        """True if rows of it stand in the lake, or may come."""
        return self.state in (CopyState.READING, CopyState.COPIED) and self.gone_at is None

    @property
    def low(self) -> SourcePosition | None:
        """The least position that the rows may be of; None before the first chunk was read."""
        return min((one.low for one in self.chunks if one.low is not None), default=None)

    @property
    def last_low(self) -> SourcePosition | None:
        """The greatest low watermark, where the last rows stand; None before the first chunk was read."""
        return max((one.low for one in self.chunks if one.low is not None), default=None)

    @property
    def high(self) -> SourcePosition | None:
        """The position from which on the stream has decided about every row.

        It is None before the first chunk was read.
        """
        return max((one.high for one in self.chunks if one.high is not None), default=None)

    @property
    def rows(self) -> int:
        """The number of rows that were copied so far."""
        return sum(one.rows or 0 for one in self.chunks)

    @property
    def left(self) -> tuple[CopiedChunk, ...]:
        """The chunks that were not read yet."""
        return tuple(one for one in self.chunks if not one.is_read)

    @property
    def is_input(self) -> bool:
        """True if a window takes, or is to take, the rows."""
        return self.state is CopyState.COPIED

    def ending(self, state: CopyState, at: datetime) -> CopiedTable:
        """Return the copy at its end, without the bounds of its chunks."""
        ended = replace(self, state=state, ended=self.ended or at)
        return ended.without_bounds()

    def without_bounds(self) -> CopiedTable:
        """Return the copy without the bounds of its chunks."""
        return replace(self, chunks=tuple(replace(one, key_from=None, key_until=None) for one in self.chunks))

    @property
    def is_bounded(self) -> bool:
        """True if the bounds of a chunk are known."""
        return any((one.key_from, one.key_until) != (None, None) for one in self.chunks)

    def with_chunks(self, read: tuple[CopiedChunk, ...]) -> CopiedTable:
        """Return the copy with chunks that have been read."""
        by_number = {one.number: one for one in read}
        return replace(self, chunks=tuple(by_number.get(one.number, one) for one in self.chunks))
