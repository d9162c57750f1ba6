"""Tables with rows of another name that stands still or was removed.

Changes that this name lacks are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from dts_assets.flows.followed_tables import FollowedTables
from dts_assets.flows.layers import SNAPSHOT
from dts_assets.flows.one_by_one import OneByOne, one_by_one
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.renamed_tables import with_new_names
from dts_assets.flows.stored_snapshots import stored_state
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import add_command, resume_command
from dts_assets.stages.merged_schemas import FollowedShards
from dts_assets.stages.row_origins import RowOrigin


class LackedOrigin(NamedTuple):
    """The window of the statement that moved rows to a table, and a sentence about them."""

    window_start: datetime
    said: str


def lacked_origins(
    pipeline: Pipeline, tables: Mapping[TableId, Sequence[Column]]
) -> OneByOne[TableId, LackedOrigin | None]:
    """Return the tables among some that lack rows of another name, as windows lack this name.

    The position at which they came stands in the sentence. Little is read where no window lacks a table.
    """
    removed = frozenset(row.table for row in pipeline.ledger.paused_tables() if row.is_removed)
    gaps = dict.fromkeys(removed, datetime.min.replace(tzinfo=UTC))
    for cut in pipeline.ledger.cuts():
        for one in cut.paused:
            gaps[one.id] = min(cut.window.start, gaps.get(one.id, cut.window.start))
    if not gaps:
        return OneByOne({}, {})
    moved = {table: tables[table] for table in with_new_names(pipeline, gaps.keys()) - gaps.keys() if table in tables}
    followed = FollowedTables(pipeline, moved)
    windows = {one.position: one.window_start for one in stored_statements(pipeline, None)} if moved else {}

    def lacked(table: TableId) -> LackedOrigin | None:
        for origin in _origins(pipeline, followed, table):
            name = pipeline.settings.routes.decoded_table(origin.table)
            at = None if origin.until is None else origin.until.next
            if name is None or name == table or at is None:
                continue
            start, gap = windows.get(at), gaps.get(name)
            if start is not None and gap is not None and gap <= start:
                return LackedOrigin(start, f"{at}: rows came from {name}, which {_why(name, name in removed)}")
        return None

    return one_by_one(moved, lacked, named=lambda table: f"The look at the former names of {table}")


def _why(name: TableId, is_removed: bool) -> str:
    if is_removed:
        return f"was removed ({add_command(name)} brings them)"
    return f"stands still and lacks windows before ({resume_command(name)} brings them)"


def _origins(pipeline: Pipeline, followed: FollowedTables, table: TableId) -> Iterator[RowOrigin]:
    if not followed.is_followed(table):
        return
    at = followed.at(table, stored_state(pipeline, SNAPSHOT.name, table)[1].frontier)
    if isinstance(at, FollowedShards):
        for one in at.shards.values():
            yield from one.origins
    elif at is not None:
        yield from at.origins
