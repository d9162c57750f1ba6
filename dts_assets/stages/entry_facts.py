"""Entry sets become rows of ``entries``, and facts that the ledger keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.emptied_tables import EmptiedTable
from dts_assets.model.positions import ServerPosition, SourcePosition, file_number
from dts_assets.model.problems import Reason
from dts_assets.model.spans import Cell
from dts_assets.stages.ddl_statements import statements
from dts_assets.stages.entry_columns import CHECKPOINT, DDL, DML, ROLLBACK, EntryColumns
from dts_assets.stages.raw_rows import with_coordinates
from dts_assets.wire.columns.buffers import rows_by_code
from dts_assets.wire.ddl.effects import HARMLESS, EffectKind, ParsedDdl
from dts_assets.wire.ddl.schema_news import doubt_of_effect
from dts_assets.wire.format import DecodedEntries, Rejected, TableShape

_OF_A_SET = ("first_offset", "last_offset", "shard", "sequence")
"""The columns that an entry takes from its set."""

MOST_EMPTIED = 1000
"""Tables that the statements of a cell may empty by name.

Where there are more, any table may be meant.
"""

MOST_UNREAD = 100_000
"""Characters of statements of a cell that were not understood.

Where there are more, any table may be meant.
"""

_APPLIED = HARMLESS | {
    EffectKind.CREATE_TABLE,
    EffectKind.DROP_TABLE,
    EffectKind.TRUNCATE_TABLE,
    EffectKind.DROP_DATABASE,
    EffectKind.RENAME_TABLE,
    EffectKind.DROP_COLUMN,
    EffectKind.RENAME_COLUMN,
    EffectKind.PRIMARY_KEY,
}
"""The effects of statements that snapshots follow, or that touch no rows.

A changed type is not among them: of some values servers make different things, which are NULL then.
"""


@dataclass(slots=True)
class EntryFacts:
    """The facts of a cell's entries, which grow batch by batch."""

    entries: int = 0
    data: int = 0
    control: int = 0
    changes: int = 0
    quarantined_entries: int = 0
    decoded_sets: int = 0
    quarantined_sets: int = 0
    rollbacks: int = 0
    ddl_statements: int = 0
    ddl_unapplied: int = 0
    checkpoint: SourcePosition | None = None
    checkpoint_gtid_set: str | None = None
    positions: dict[int, tuple[SourcePosition, SourcePosition]] = field(default_factory=dict)
    latest_event: datetime | None = None
    shapes: dict[TableShape, ServerPosition] = field(default_factory=dict)
    """All columns that events described, with the place of the first such event, as they came."""
    unknown: dict[str, int] = field(default_factory=dict)
    emptying: int = 0
    """Statements that take away all rows of a table."""
    emptied: list[EmptiedTable] = field(default_factory=list)
    """The tables that they name, one more than :data:`MOST_EMPTIED` at most."""
    altering: int = 0
    """Statements that may change a table in another way."""
    altered: list[EmptiedTable] = field(default_factory=list)
    """The tables that they name, one more than :data:`MOST_EMPTIED` at most."""
    unread: list[str] = field(default_factory=list)
    """The words of those that were not understood, one character more than :data:`MOST_UNREAD` at most."""

    def add(
        self, decoded: DecodedEntries, columns: EntryColumns, shapes: Iterable[tuple[TableShape, ServerPosition]]
    ) -> None:
        """Count the entries of one call of the decoder.

        ``columns`` are those of its batch, ``shapes`` the columns that its events described.
        """
        batch = decoded.batch
        data, rollbacks, ddl = (int(np.count_nonzero(columns.kinds == kind)) for kind in (DML, ROLLBACK, DDL))
        rejected = [rejection.index for rejection in decoded.rejected if rejection.entry_number is not None]
        self.entries += batch.num_rows + len(rejected)
        self.data += data
        self.control += batch.num_rows - data
        self.changes += pc.sum(batch["rows"]).as_py() or 0
        self.quarantined_entries += len(rejected)
        self.decoded_sets += len(np.union1d(batch["set_index"].to_numpy(), np.array(rejected, np.int64)))
        self.quarantined_sets += len(decoded.rejected) - len(rejected)
        self.rollbacks += rollbacks
        self.ddl_statements += ddl
        if ddl:
            found = statements(batch)
            self.ddl_unapplied += sum(1 for one in found if not (one.is_first_state or _followed(one.parsed)))
            self.emptying += sum(1 for one in found if one.may_empty)
            self.emptied = _with_named(self.emptied, (one.emptied for one in found))
            self.altering += sum(1 for one in found if one.altered or one.unread is not None)
            self.altered = _with_named(self.altered, (one.altered for one in found))
            for words in dict.fromkeys(one.unread for one in found if one.unread is not None):
                if words not in self.unread and (room := MOST_UNREAD + 1 - sum(map(len, self.unread))) > 0:
                    self.unread.append(words[:room])
        self._see_checkpoints(decoded)
        self._see_positions(batch, columns)
        latest = pc.max(batch["event_time"]).as_py()
        self.latest_event = max(filter(None, (self.latest_event, latest)), default=None)
        for shape, place in shapes:
            self.shapes.setdefault(shape, place)
        for what, count in decoded.unknown.items():
            self.unknown[what] = self.unknown.get(what, 0) + count

    @property
    def names_altered(self) -> bool:
        """False if any table may be meant by the statements that change tables without emptying them."""
        return len(self.altered) <= MOST_EMPTIED and sum(map(len, self.unread)) <= MOST_UNREAD

    def _see_checkpoints(self, decoded: DecodedEntries) -> None:
        for checkpoint in decoded.checkpoints:
            position = SourcePosition(0, file_number(checkpoint.file_name), checkpoint.position)
            if self.checkpoint is None or position > self.checkpoint:
                self.checkpoint, self.checkpoint_gtid_set = position, checkpoint.gtid_set

    def _see_positions(self, batch: pa.RecordBatch, columns: EntryColumns) -> None:
        """Keep the smallest and greatest position per server; CHECKPOINT and HEARTBEAT are the vendor's own, not the server's."""
        told = [np.asarray(batch[name].is_valid()) for name in ("server_id", "position") if batch[name].null_count]
        rows = np.flatnonzero(np.logical_and.reduce([columns.kinds < CHECKPOINT, *told]))
        servers = columns.server_ids[rows]
        distinct, codes = np.unique(servers, return_inverse=True)
        for code, places in rows_by_code(codes):
            server, mine = int(distinct[code]), rows[places]
            keys = columns.keys[mine]
            low, high = (columns.position(int(mine[at])) for at in (keys.argmin(), keys.argmax()))
            before = self.positions.get(server, (low, high))
            self.positions[server] = (min(before[0], low), max(before[1], high))


def account_for_all(decoded: DecodedEntries, sets: pa.Array) -> DecodedEntries:
    """Return what a decoder gave, with a rejection for each set of which it gave nothing.

    Bytes may be a message of unknown fields alone, or none at all: damage looks like that, and no producer sends it.
    """
    rejected = np.array([one.index for one in decoded.rejected], np.int64)
    given = np.union1d(decoded.batch["set_index"].to_numpy(), rejected)
    if len(given) == len(sets):
        return decoded
    detail = "it holds no entry"
    silent = [
        Rejected(number, None, Reason.UNDECODABLE_ENTRIES, detail, sets[number].as_py())
        for number in np.setdiff1d(np.arange(len(sets)), given).tolist()
    ]
    return replace(decoded, rejected=tuple(sorted((*decoded.rejected, *silent), key=lambda one: one.index)))


def entry_rows(batch: pa.RecordBatch, sets: pa.RecordBatch, *, cell: Cell, epoch: int) -> pa.RecordBatch:
    """Return rows of ``entries`` from a decoded batch and the sets that it was decoded from.

    ``sets`` has ``first_offset``, ``last_offset``, ``shard`` and ``sequence``.
    """
    of_set = {name: sets[name].take(batch["set_index"]) for name in _OF_A_SET}
    names = [name for name in batch.schema.names if name != "set_index"]
    rows = pa.RecordBatch.from_arrays([*of_set.values(), *[batch[name] for name in names]], names=[*of_set, *names])
    return with_coordinates(rows, cell=cell, epoch=epoch)


def _with_named(before: Iterable[EmptiedTable], named: Iterable[Collection[EmptiedTable]]) -> list[EmptiedTable]:
    """Return tables that statements name behind those before, each once, and one too many at most."""
    return list(dict.fromkeys([*before, *sorted(table for some in named for table in some)]))[: MOST_EMPTIED + 1]


def _followed(parsed: ParsedDdl) -> bool:
    """Tell whether snapshots show every effect of a statement on rows and columns, whatever values they have."""
    return parsed.parsed and all(
        effect.kind in _APPLIED or (effect.kind is EffectKind.ADD_COLUMN and doubt_of_effect(effect) is None)
        for effect in parsed.effects
    )
