"""The rows of copied tables as an input of windows.

It is said here which window takes them, and with which tasks they are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from dts_assets.flows.copied_rules import rules_of_copy
from dts_assets.flows.known_tables import known_names, registered_columns
from dts_assets.flows.looks import looks
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.tables_tasks import TablesTask, TableTarget
from dts_assets.model.copied_tables import NO_KAFKA_PARTITION, CopiedTable, CopyKind
from dts_assets.model.lake_layers import COPIES
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import Window
from dts_assets.planning.copied_tables import copies_in_force, taken_by
from dts_assets.planning.task_shares import by_size
from dts_assets.stages.copied_entries import CopiedPart
from dts_assets.store.files import WriteTarget
from dts_assets.wire.copied_rows import CopiedRows
from dts_assets.wire.ddl.schema_history import SourceStatement

_TASK_BYTES = 64 << 20
"""Bytes of files that one task decodes."""


def take_copies(pipeline: Pipeline, windows: Sequence[Window]) -> None:
    """Note which of some windows take which copied tables, and describe these tables there.

    A copy stays with its window from then on, so that a window made again has equal rows.
    """
    waiting = [one for one in pipeline.ledger.copied_tables() if one.is_input and one.window_start is None]
    if not waiting:
        return
    look = next(look for look in looks(pipeline, known_names(pipeline)) if look.judges(windows))
    by_start = {window.start: window for window in windows}
    taken = {name: start for name, start in taken_by(waiting, look.topic.copied).items() if start in by_start}
    if not taken:
        return
    placed = [one for one in pipeline.ledger.copied_tables() if taken.get(one.copy, one.window_start) is not None]
    counting = copies_in_force(placed)
    for start in sorted(set(taken.values())):
        mine = [one for one in counting if taken.get(one.copy, one.window_start) == start]
        rows = [_described(one, start) for one in mine]
        pipeline.ledger.replace_table_shapes([Cell(NO_KAFKA_PARTITION, by_start[start])], rows)
    pipeline.ledger.change_copied_tables(
        lambda rows: [replace(one, window_start=taken.get(one.copy, one.window_start)) for one in rows]
    )


def _described(one: CopiedTable, start: datetime) -> TableShapeRow:
    """Return the columns of a copied table as a window describes them."""
    place = None if one.low is None else one.low.at_server
    return TableShapeRow(NO_KAFKA_PARTITION, start, one.table, one.columns, place, CODE_VERSION)


def copied_tasks(
    pipeline: Pipeline,
    copied: Mapping[datetime, Sequence[CopiedTable]],
    targets: Mapping[TableId, TableTarget],
    quarantine: WriteTarget,
    ddl: WriteTarget,
    sources: Mapping[TableId, tuple[TableId, ...]],
    said: Sequence[SourceStatement],
) -> Iterator[TablesTask]:
    """Yield the tasks that decode copied tables, by the window that takes them.

    They apply the rules that rows have not passed when they were written; ``said`` are the statements by which row filters have
    their names. Tables without a target are passed over.
    """
    routes, lake = pipeline.settings.routes, pipeline.lake
    known = registered_columns(pipeline) if copied else {}
    for start, tables in copied.items():
        for one in tables:
            table = routes.decoded_table(one.table) if routes else one.table
            if table is None or table not in targets:
                continue
            target = {table: replace(targets[table], rules=rules_of_copy(pipeline, one, known, said).rules)}
            path = copies_path(pipeline, one.table)
            files = lake.data_files(path, {"copy": {one.part}})
            part = CopiedPart(one, start, empties=one.kind is not CopyKind.REPAIR)
            # A table without rows has a task, too: its rows of before are taken away.
            for number, some in enumerate(by_size(files, _TASK_BYTES) or [[]]):
                mine = replace(part, empties=part.empties and not number)
                wire = CopiedRows(pipeline.settings.source_time_zone, mine.operation)
                yield TablesTask(
                    tuple(file.path for file in some), {start: sum(file.bytes for file in some)}, wire, target, quarantine,
                    ddl, lake.file_store(path), mine.wanted(), routes, sources, mine,
                )  # fmt: skip


def copies_path(pipeline: Pipeline, table: TableId) -> tuple[str, ...]:
    """Return the path of a copied table in the lake: ``("shop", "copies", "shopdb", "orders")``."""
    return pipeline.table_path(COPIES, table)
