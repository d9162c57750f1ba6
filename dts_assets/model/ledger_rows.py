"""The rows of the ledger as typed values: their fields, in order, are the columns of its tables. Instants are UTC."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.delivery import NOTHING_DELIVERED, CellDelivery
from dts_assets.model.emptied_tables import EmptiedTable
from dts_assets.model.foreign_keys import PositionSpan
from dts_assets.model.frontier import Consistency
from dts_assets.model.key_periods import KeyPeriod
from dts_assets.model.lineages import Lineage
from dts_assets.model.message_ids import SeenTable
from dts_assets.model.message_retention import RemovedRows
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.open_sets import OpenSet
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.problems import Completeness, Problem, Reason
from dts_assets.model.refreshes import Refresh
from dts_assets.model.runs import Run, SeenCheckpoint, SeenStatement
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy, Window


@dataclass(frozen=True, slots=True)
class RawWindow:
    """The mark of raw of a Kafka partition and window; ``closed_by`` is ``message``, ``grace``, ``end`` or ``open``.

    ``refreshes`` are the readings that the window consists of; none if it was read only after it had closed.
    """

    kafka_partition: int
    window: Window
    epoch: int
    offsets: OffsetRange
    closed_by: ClosedBy
    messages: int
    bytes: int
    first_time: datetime | None
    last_time: datetime | None
    problems: tuple[Problem, ...]
    generation: str
    code_version: str
    refreshes: tuple[Refresh, ...] = ()

    @property
    def cell(self) -> Cell:
        """The cell that the row describes."""
        return Cell(self.kafka_partition, self.window)


@dataclass(frozen=True, slots=True)
class Counts:
    """The terms of the equations that hold for every Kafka partition and window.

    messages = whole + fragments + null_messages + quarantined_messages;
    carried_in + fragments = joined + superseded + waiting + quarantined_fragments + carried_out;
    whole + joined_sets = decoded_sets + quarantined_sets;
    entries = data + control + quarantined_entries.

    ``quarantined_sets`` are whole entry sets that give no entry, ``broken_sets`` those that never became whole, whose fragments
    are ``quarantined_fragments``.
    """

    messages: int = 0
    whole: int = 0
    fragments: int = 0
    null_messages: int = 0
    quarantined_messages: int = 0
    carried_in: int = 0
    joined: int = 0
    superseded: int = 0
    waiting: int = 0
    quarantined_fragments: int = 0
    carried_out: int = 0
    entries: int = 0
    data: int = 0
    control: int = 0
    quarantined_entries: int = 0
    joined_sets: int = 0
    decoded_sets: int = 0
    quarantined_sets: int = 0
    broken_sets: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})

    @property
    def quarantined(self) -> int:
        """The number of messages, fragments, entry sets and entries that could not be used."""
        return self.quarantined_messages + self.quarantined_fragments + self.quarantined_sets + self.quarantined_entries

    @property
    def quarantine_rows(self) -> int:
        """The number of rows of the ingest in ``quarantine``; the fragments of a broken set are one."""
        return self.quarantined_messages + self.broken_sets + self.quarantined_sets + self.quarantined_entries

    @property
    def unbalanced(self) -> tuple[str, ...]:
        """The equations that do not hold, each by what it counts: ``("messages", "entries")``."""
        fragments = self.joined + self.superseded + self.waiting + self.quarantined_fragments + self.carried_out
        differences = {
            "messages": self.messages - self.whole - self.fragments - self.null_messages - self.quarantined_messages,
            "fragments": self.carried_in + self.fragments - fragments,
            "sets": self.whole + self.joined_sets - self.decoded_sets - self.quarantined_sets,
            "entries": self.entries - self.data - self.control - self.quarantined_entries,
        }
        return tuple(what for what, difference in differences.items() if difference)

    @property
    def balanced(self) -> bool:
        """True if the four equations hold."""
        return not self.unbalanced


@dataclass(frozen=True, slots=True)
class ServerPositions:
    """The least and the greatest position of one server in a window."""

    server_id: int
    first: SourcePosition
    last: SourcePosition


@dataclass(frozen=True, slots=True)
class IngestWindow:
    """A row of ``windows``: the mark of the ingest of a Kafka partition and window.

    ``refreshes`` are the readings that the window consists of; none if it was read only after it had closed. ``resume`` is the
    state that the next refresh goes on with; None if that has to begin anew, and once the window is closed. ``emptying`` counts
    the statements that take away all rows of a table; None where they were not counted. ``emptied`` names these tables; it is
    empty beside such statements where they are too many, or were not named. ``altering`` counts the statements that may change
    a table in another way, ``altered`` names these tables, and ``unread`` has the words of those that were not understood; both
    are empty where they are too many. ``left_open`` are the entry sets whose fragments are ``carried_out``, ``taken_over`` those
    whose fragments are ``carried_in``. ``seen_tables`` tells, where messages carry ids, which tables have rows of a full load and
    other changes, and in which order.
    """

    kafka_partition: int
    window: Window
    epoch: int
    offsets: OffsetRange
    counts: Counts
    checkpoint: SourcePosition | None
    checkpoint_gtid_set: str | None
    positions: tuple[ServerPositions, ...]
    runs: tuple[Run, ...] = field(default=(), kw_only=True)
    checkpoints: tuple[SeenCheckpoint, ...] = field(default=(), kw_only=True)
    statements: tuple[SeenStatement, ...] = field(default=(), kw_only=True)
    delivery: CellDelivery = field(default=NOTHING_DELIVERED, kw_only=True)
    closed_by: ClosedBy
    completeness: Completeness
    problems: tuple[Problem, ...]
    code_version: str
    generation: str
    inputs: tuple[str, ...]
    refreshes: tuple[Refresh, ...] = ()
    resume: bytes | None = None
    emptying: int | None = None
    emptied: tuple[EmptiedTable, ...] = field(default=(), kw_only=True)
    altering: int = field(default=0, kw_only=True)
    altered: tuple[EmptiedTable, ...] = field(default=(), kw_only=True)
    unread: tuple[str, ...] = field(default=(), kw_only=True)
    left_open: tuple[OpenSet, ...] = ()
    taken_over: tuple[OpenSet, ...] = ()
    seen_tables: tuple[SeenTable, ...] = ()

    @property
    def cell(self) -> Cell:
        """The cell that the row describes."""
        return Cell(self.kafka_partition, self.window)


@dataclass(frozen=True, slots=True)
class InvalidColumn:
    """A column with values that do not fit its type, and their number.

    Such a value is ``0000-00-00`` in a column of days.
    """

    column: str
    values: int


@dataclass(frozen=True, slots=True)
class WindowTable:
    """The result of a tables run for one table in one Kafka partition and window.

    ``quarantined`` counts changes, ``quarantined_entries`` the entries that hold them, each a row of ``quarantine``. ``filtered``
    counts the changes that a row filter left out. ``statements`` are those that may have changed columns, rows that no event
    tells, or the table's name; the positions are theirs, too.
    ``partial_moves`` are updates that move a row to another key and lack columns. ``invalid_columns`` has the ``invalid_values``
    by column. ``keys`` are the primary keys that the changes told, in order. ``lists`` are the lists of columns that their events
    carried, in order, each as a digest and its shard. ``table_shapes`` has their names. ``run`` wrote the counts last.
    ``deletes`` and ``moves`` say where rows were deleted and where updates changed a key, before any rule left a change out.
    """

    kafka_partition: int
    window_start: datetime
    table: TableId
    changes: int
    kept: int
    redelivered: int
    quarantined: int
    filtered: int = field(default=0, kw_only=True)
    truncations: int = field(default=0, kw_only=True)
    statements: int = field(default=0, kw_only=True)
    quarantined_entries: int = field(default=0, kw_only=True)
    deletes: PositionSpan | None = field(default=None, kw_only=True)
    moves: PositionSpan | None = field(default=None, kw_only=True)
    row_hash: int
    absent_rows: int
    invalid_values: int
    invalid_columns: tuple[InvalidColumn, ...] = field(default=(), kw_only=True)
    partial_moves: int = field(default=0, kw_only=True)
    keys: tuple[KeyPeriod, ...] = field(default=(), kw_only=True)
    lists: tuple[KeyPeriod, ...] = field(default=(), kw_only=True)
    first_position: SourcePosition | None
    last_position: SourcePosition | None
    run: str = ""

    @property
    def balanced(self) -> bool:
        """True if changes = kept + filtered + redelivered + quarantined."""
        return self.changes == self.kept + self.filtered + self.redelivered + self.quarantined


class PausedBy(StrEnum):
    """The origin of a pause; a removed table stands still, too."""

    FAILURE = "failure"
    PERSON = "person"
    REMOVAL = "removal"


@dataclass(frozen=True, slots=True)
class PausedTable:
    """A row of ``paused_tables``: a source table that stands still in all its layers.

    It goes on when a person resumes it, or adds it again after its removal. ``layer`` is the layer whose step failed, empty for a
    person's pause. ``reason`` is the kind and the place of the fault, or the person's words. ``since`` is the moment of the
    pause. ``first_window`` is the start of the first window that the failed run could not make; None for a person's pause.
    """

    table: TableId
    layer: str
    reason: str
    by: PausedBy
    since: datetime
    first_window: datetime | None = None

    @property
    def is_removed(self) -> bool:
        """True if a person has taken the table out of the lake, so that nobody misses it."""
        return self.by is PausedBy.REMOVAL


@dataclass(frozen=True, slots=True)
class MissingTable:
    """A table that a window lacks because it was paused ``since`` an instant, when the window was made."""

    database: str
    schema: str
    table: str
    reason: str
    since: datetime

    @classmethod
    def of(cls, row: PausedTable) -> MissingTable:
        """Return the note that a window made during a pause gets."""
        return cls(row.table.database, row.table.schema, row.table.table, row.reason, row.since)

    @property
    def id(self) -> TableId:
        """The table's name parts."""
        return TableId(self.database, self.schema, self.table)


@dataclass(frozen=True, slots=True)
class Cut:
    """A row of ``cuts``: the mark of the tables run of a window. ``consistency`` is ``cut`` or ``window``.

    Of a window that was made while it was open, ``ends`` are the offsets up to which its entries are in the changelogs, by Kafka
    partition, and ``made_by`` names the runs that wrote these entries. As long as ``chain`` is the same, each of these runs has
    only added rows, none of them at a position that snapshots had already passed. ``open_in`` are the Kafka partitions in which
    the window had not closed: more messages of it may come. ``paused`` are the tables that the window lacks.
    """

    window: Window
    cut: SourcePosition | None
    gtid_set: str | None
    consistency: Consistency
    completeness: Completeness
    problems: tuple[Problem, ...]
    generation: str
    inputs: tuple[str, ...]
    code_version: str
    ends: tuple[int, ...] = ()
    made_by: tuple[str, ...] = ()
    chain: str = ""
    open_in: tuple[int, ...] = ()
    paused: tuple[MissingTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row of ``comparisons``: what messages behind falling ids turned out to be, by their content.

    ``window`` and ``offset`` are of the first of them. They belong to ``life``; from the offset ``until`` in the run
    ``until_part`` on to the life before again, None where there is no such place. ``doubts`` counts messages whose ids were never
    seen and that nothing shows to be of another life, ``doubted`` is the offset of the first. ``inputs`` is a digest of all that
    was compared, ``parts`` the number of runs behind the fall that were; None where an earlier version has compared them.
    ``copied`` counts messages that other Kafka partitions had, None for an earlier version.
    """

    kafka_partition: int
    window: Window
    offset: int
    life: int
    until: int | None
    until_part: int | None
    doubts: int
    doubted: int | None
    inputs: str
    code_version: str
    parts: int | None = None
    copied: int | None = None

    @property
    def cell(self) -> Cell:
        """The cell of the first message."""
        return Cell(self.kafka_partition, self.window)


@dataclass(frozen=True, slots=True)
class TableShapeRow:
    """The columns that events of a window described, and the first such event's place at its server.

    ``source_set`` is the set of a TDSQL whose events they were; None where no set is told.
    """

    kafka_partition: int
    window_start: datetime
    table: TableId
    columns: tuple[ColumnShape, ...]
    first_position: ServerPosition | None
    code_version: str
    source_set: str | None = None

    @property
    def source(self) -> TableId:
        """The source table, in its set where it has one."""
        return self.table.of_set(self.source_set or "")


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """Something that could not be used, with its bytes; ``stage`` is ``entries``, ``tables`` or ``snapshot``.

    ``table`` is known in stage ``snapshot`` alone.
    """

    kafka_partition: int
    window_start: datetime
    stage: str
    first_offset: int | None
    last_offset: int | None
    reason: Reason
    detail: str
    payload: bytes | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a part of the subscription, ``p00`` or ``tables``, which one writer has.

    ``token`` grows with every holder, ``name`` is the holder's in the marks, ``beat`` grows while it gives signs of life.
    ``holder`` names the process, ``since`` is by its clock and shown only. ``wanted_by`` is the process that waits next; a lease
    that is not ``held`` is kept for it a while.
    """

    part: str
    token: int
    name: str
    holder: str
    since: datetime
    beat: int
    held: bool
    wanted_by: str | None = None


@dataclass(frozen=True, slots=True)
class SettledDay:
    """A row of ``settled_days``: a UTC day in whose windows nothing is left to do.

    All days before it are settled, too. ``day`` counts days since 1970-01-01. ``key`` is a digest of all that the day was
    judged by: settings, the ledger's files of the day and of the days that it ``refers_to``, and the past before the day
    ``began``. ``tables`` is a digest of the known tables if a window of the day depends on them, else empty. ``after`` is the
    digest of the past behind the day. ``past`` is that past itself; most rows do without. ``lacking`` are digests of the tables
    that windows of the day lack, each of which is paused.
    """

    day: int
    began: int
    refers_to: tuple[int, ...]
    tables: str
    key: str
    after: str
    past: bytes | None = None
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class BacklogTable:
    """A row of ``backlog``: a table of which some layer may lack changes.

    It was entered by a ``run`` that was to write its changelog.
    """

    table: TableId
    run: str


LedgerRow: TypeAlias = (
    RawWindow
    | IngestWindow
    | WindowTable
    | Cut
    | TableShapeRow
    | Comparison
    | Lineage
    | QuarantineRow
    | Lease
    | PausedTable
    | SettledDay
    | BacklogTable
    | RemovedRows
    | CopiedTable
)
