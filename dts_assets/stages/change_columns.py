"""Changelog rows as columns of the snapshot's types, and the changes among them that count.

A changelog file may be older than a column, its type or the spelling of its name. So each image gets exactly the columns that
the snapshot has now; what a file lacks is null. Columns that were not sent and values that do not fit are told per column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.added_columns import AUDITED, DELETED_AT, flattened_paths
from dts_assets.model.columns import Column, has_key
from dts_assets.model.frontier import EMPTY_FRONTIER, Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.stored_filters import StoredFilter
from dts_assets.stages.completed_images import CompletedImages
from dts_assets.stages.followed_columns import FollowedColumns, FollowedImages
from dts_assets.stages.keys import Hashes, Mask, Numbers, as_mask, as_numbers
from dts_assets.stages.row_places import at_or_before, positions_of
from dts_assets.stages.shard_truncations import Shard, emptied_rows, shard_columns_of, shards_in
from dts_assets.stages.stored_images import IMAGES, StoredImages
from dts_assets.wire.columns.lake_texts import held_as

CHANGE_COLUMNS = (
    "op", "before", "after", "absent", "invalid", "event_time", "source_position", "row_number", "kafka_partition",
    "kafka_offset", "window_start",
)  # fmt: skip
"""The columns of a changelog that a snapshot is made from."""

SHOWN = {"_event_time": "event_time", "_kafka_partition": "kafka_partition", "_kafka_offset": "kafka_offset"}
"""The columns that every snapshot shows of a row's last change, and their names in a changelog."""

TRUNCATE = "truncate"
"""The operation of a change that empties the table: it has no image."""


TIME = pa.timestamp("us", "UTC")

NO_TIME = -(1 << 63)
"""The number where there is no time; it is before all others."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """The shape of a snapshot's or a history's rows: source columns, their names there, Arrow schema.

    ``unfit`` says that keys may hold values that do not fit their types, so that texts are part of a key. ``versions`` says that
    the table is a history, which has every version of a row. ``added`` names the columns that a snapshot has on request,
    ``shards`` those that tell the shard of a row in a merged table. ``followed`` has the columns by all schemas of the changes;
    None where they have one. ``judged`` is the row filter of changes that nobody could judge before; None without one.
    ``relaxes`` says that documents stand there in the relaxed form of Extended JSON. Of a table without a key ``changed_only``
    says that an old row has its changed columns alone, beside values that are the new row's or NULL, and ``null_if_unsent`` that
    NULL in an old row may stand for a value that was not sent.
    """

    columns: tuple[Column, ...]
    names: tuple[str, ...]
    schema: pa.Schema
    unfit: bool = False
    versions: bool = False
    added: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    followed: FollowedColumns | None = None
    judged: StoredFilter | None = None
    relaxes: bool = False
    changed_only: bool = False
    null_if_unsent: bool = False

    @classmethod
    def of(
        cls,
        columns: tuple[Column, ...],
        names: tuple[str, ...],
        schema: pa.Schema,
        *,
        unfit: bool,
        versions: bool = False,
        added: tuple[str, ...] = (),
        shards: tuple[str, ...] = (),
        followed: FollowedColumns | None = None,
        judged: StoredFilter | None = None,
        relaxes: bool = False,
        changed_only: bool = False,
        null_if_unsent: bool = False,
    ) -> RowShape:
        """Return the shape of a table; the rows of a bag are always told apart by texts, too."""
        unfit = unfit or not has_key(columns)
        return cls(
            columns,
            names,
            schema,
            unfit,
            versions,
            added,
            shards,
            followed,
            judged,
            relaxes,
            changed_only,
            null_if_unsent,
        )

    @property
    def documents(self) -> int | None:
        """The place of the column with the documents of a collection; None for any other table."""
        return next((place for place, column in enumerate(self.columns) if column.holds_documents), None)

    @property
    def flattened(self) -> Mapping[str, tuple[str, ...]]:
        """The paths of fields of documents that are columns of their own, by their names."""
        return flattened_paths(self.added)

    @property
    def shard_keys(self) -> list[int]:
        """The numbers of the columns that tell a shard, among those that tell rows apart."""
        names = [self.columns[place].name for place in self.keys]
        return [names.index(name) for name in self.shards]

    @property
    def is_soft(self) -> bool:
        """True if deleted rows stay, with the time at which they were deleted."""
        return DELETED_AT in self.added

    @property
    def shown(self) -> Mapping[str, str]:
        """The columns that a snapshot shows of a row's last change, and their names in a changelog."""
        return {**SHOWN, **{name: AUDITED[name] for name in self.added if name in AUDITED}}

    @property
    def change_columns(self) -> tuple[str, ...]:
        """The columns of a changelog that the table is made from."""
        return tuple(dict.fromkeys((*CHANGE_COLUMNS, *self.shown.values())))

    @property
    def is_bag(self) -> bool:
        """True if no column is part of a key, so that rows are told apart by all columns."""
        return not has_key(self.columns)

    @property
    def types(self) -> list[pa.DataType]:
        """The snapshot's types of the source columns."""
        return [self.schema.field(name).type for name in self.names]

    @property
    def keys(self) -> list[int]:
        """The places of the columns that tell rows apart: those of the key, or all of a bag."""
        return [place for place, column in enumerate(self.columns) if column.is_key or self.is_bag]

    @property
    def key_fields(self) -> list[str]:
        """The names that a changelog may have for the columns that tell rows apart."""
        if self.followed is None:
            return [name for place in self.keys for name in self.columns[place].lake_names]
        return [name for one in self.followed.schemas for place in self.keys for name in one.fields[place]]

    @property
    def values(self) -> list[int]:
        """The places of all other columns."""
        return [place for place, column in enumerate(self.columns) if not (column.is_key or self.is_bag)]


@dataclass(frozen=True, slots=True)
class Counted:
    """The changes that count for the new version of a snapshot, as a rule.

    ``after`` is the frontier to reach: what it does not hold never counts. ``before`` is the frontier of the present version:
    what it holds counts only for keys that are computed again. ``again`` are the sorted hashes of these keys, None where no key
    is; ``newer`` are then the windows whose changes count for all other keys. No change at or before ``emptied_at`` counts, the
    position of the last truncation. ``until`` is the last position that counts, None for any. Of a merged table ``emptied`` are
    the truncations of shards, which the columns ``shard_names`` tell: no change of the shard at or before one counts.
    """

    after: Frontier
    before: Frontier = EMPTY_FRONTIER
    emptied_at: SourcePosition | None = None
    again: Hashes | None = None
    newer: frozenset[datetime] = frozenset()
    until: SourcePosition | None = None
    shard_names: tuple[str, ...] = ()
    emptied: tuple[Truncation, ...] = ()

    def held(self, changes: pa.RecordBatch) -> Mask:
        """Return the changes that count for some key."""
        held = held_by(changes, self.after) & ~is_operation(changes, TRUNCATE)
        if self.emptied_at is not None:
            held &= ~at_or_before(changes, self.emptied_at)
        if self.until is not None:
            held &= at_or_before(changes, self.until)
        if self.emptied:
            shards = shard_columns_of(changes, self.shard_names)
            held &= ~emptied_rows(shards, positions_of(changes), [(one.position, one.shard) for one in self.emptied])
        return held if self.again is not None else held & ~held_by(changes, self.before)

    def fresh(self, changes: pa.RecordBatch) -> Mask:
        """Return the changes that count for keys which are not computed again."""
        fresh = ~held_by(changes, self.before)
        if self.again is None:
            return fresh
        starts = changes.column("window_start")
        newer = pa.array(sorted(self.newer), starts.type)
        return fresh & as_mask(pc.is_in(starts, value_set=newer))


def held_by(changes: pa.RecordBatch, frontier: Frontier) -> Mask:
    """Apply ``Frontier.holds`` to many changes."""
    start, held = changes.column("window_start"), np.zeros(changes.num_rows, np.bool_)
    if frontier.window is None:
        return held
    if frontier.cut is not None:
        held = at_or_before(changes, frontier.cut)
    if frontier.whole_until is not None:
        held = held | as_mask(pc.less_equal(start, pa.scalar(frontier.whole_until, start.type)))
    return held & as_mask(pc.less_equal(start, pa.scalar(frontier.window, start.type)))


def microsecond(instant: datetime) -> int:
    """Return an instant in microseconds since 1970 UTC."""
    return int(microseconds(pa.array([instant], TIME))[0])


REPAIR = "repair"
"""The operation of rows taken from the source because they differed; without a new image a row goes."""


BEGINS = pa.array(["insert", "read", REPAIR])
"""The operations whose new image has all columns of its row."""


def is_operation(changes: pa.RecordBatch, operation: str) -> Mask:
    """Return which changes are of an operation, such as ``delete``.

    A repair without a new image is a ``delete``, too.
    """
    found = as_mask(pc.equal(changes.column("op"), operation))
    if operation == "delete":
        found |= as_mask(pc.and_(pc.equal(changes.column("op"), REPAIR), changes.column("after").is_null()))
    return found


@dataclass(frozen=True, slots=True, order=True)
class Truncation:
    """A change that empties a table: its position, and its time as :func:`times_of` gives it.

    Of a merged table it empties the rows of a ``shard``; see :data:`dts_assets.stages.shard_truncations.Shard`.
    """

    position: SourcePosition
    event_time: int
    shard: Shard = ()


def truncations_of(
    changes: Iterable[pa.RecordBatch], frontier: Frontier, shard_names: Sequence[str] = ()
) -> tuple[Truncation, ...]:
    """Return the truncations that a frontier holds, in the order of their positions.

    ``shard_names`` are the columns that tell the shards of a merged table.
    """
    found = set[Truncation]()
    for batch in changes:
        mask = held_by(batch, frontier) & is_operation(batch, TRUNCATE)
        if mask.any():
            some = batch.filter(pa.array(mask))
            columns = [column.tolist() for column in (*positions_of(some), times_of(some))]
            shards = shards_in(some.column("before"), shard_names) if shard_names else [()] * some.num_rows
            rows = zip(*columns, shards, strict=True)
            found |= {Truncation(SourcePosition(*place), time, shard) for *place, time, shard in rows}
    return tuple(sorted(found))


def times_of(changes: pa.RecordBatch) -> Numbers:
    """Return the times of changes in microseconds since 1970 UTC.

    A change without a time of its own has that of its window's start.
    """
    return microseconds(pc.coalesce(changes.column("event_time"), changes.column("window_start")))


def microseconds(times: pa.Array) -> Numbers:
    """Return times as microseconds since 1970 UTC; :data:`NO_TIME` where there is none."""
    return as_numbers(pc.fill_null(times.cast(TIME).cast(pa.int64()), NO_TIME))


class Changes:
    """Changelog rows with both images in the snapshot's columns, and facts about single columns."""

    def __init__(self, rows: pa.RecordBatch, shape: RowShape) -> None:
        """Take changelog rows (:data:`CHANGE_COLUMNS`), none of which is a truncation."""
        self.rows = rows
        self.shape = shape
        self._images: StoredImages | FollowedImages
        if shape.followed is None:
            self._images = StoredImages(rows, [column.lake_names for column in shape.columns])
        else:
            ways = shape.followed.shards
            shards = () if ways is None else shard_columns_of(rows, ways.names)
            self._images = FollowedImages(rows, shape.followed, shape.followed.schemas_of(positions_of(rows), shards))
        self._told = self._images if shape.judged is None else CompletedImages(rows, self._images)
        self._values = {image: [self._typed(image, place) for place in range(len(shape.columns))] for image in IMAGES}

    @property
    def count(self) -> int:
        """The number of changes."""
        return int(self.rows.num_rows)

    @property
    def has_before(self) -> Mask:
        """The changes that have an old image."""
        return as_mask(self.rows.column("before").is_valid())

    @property
    def has_after(self) -> Mask:
        """The changes that have a new image."""
        return as_mask(self.rows.column("after").is_valid())

    def values(self, image: str, place: int) -> pa.Array:
        """Return an image's values of the column at a place, in the snapshot's type."""
        return self._values[image][place]

    def absent(self, image: str, place: int) -> Mask | None:
        """Return the changes whose image did not send the column at a place; None where all sent it."""
        return self._told.absent(image, place)

    def texts(self, image: str, place: int) -> pa.Array | None:
        """Return the source's texts of values that do not fit, null where they do; None where all fit."""
        return self._told.texts(image, place)

    def unknown(self, image: str, place: int) -> Mask | None:
        """Return the changes whose value no rule of servers tells, or was NULL until a statement.

        None stands for no such change.
        """
        return None if isinstance(self._images, StoredImages) else self._images.unknown(image, place)

    def unknown_key(self, image: str, place: int) -> Mask:
        """Return the changes whose key has a value that no rule of servers tells.

        A value that was NULL until a statement counts, too. Where the image was not sent the column, its value is
        that of the other image.
        """
        images, none = (image, "before" if image == "after" else "after"), np.zeros(self.count, np.bool_)
        mine, others = (none if mask is None else mask for mask in (self.unknown(one, place) for one in images))
        absent = self.absent(image, place)
        return mine if absent is None else np.where(absent, others, mine)

    def _typed(self, image: str, place: int) -> pa.Array:
        kind, values = self.shape.types[place], self._told.values(image, place)
        return pa.nulls(self.count, kind) if values is None else held_as(values, kind)
