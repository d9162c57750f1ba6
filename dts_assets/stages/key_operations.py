"""Operations on keys: changes seen from the keys that they touch.

A change *takes* a key (insert, update, full-load read) or *leaves* one (delete, and the old key of an update that moves its row).
The last operation on a key decides whether its row lives and what it holds. Rows that stand in a snapshot already are operations,
too, older than any change.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.positions import SourcePosition
from dts_assets.stages.change_columns import (
    BEGINS,
    Changes,
    Counted,
    RowShape,
    Truncation,
    is_operation,
    microseconds,
    times_of,
)
from dts_assets.stages.change_keys import key_columns, key_of, lacks_old_values, lacks_values
from dts_assets.stages.judging_marks import judging_marks
from dts_assets.stages.keys import Hashes, Mask, Numbers, among_sorted, as_mask, as_numbers, differ, hash_keys
from dts_assets.stages.row_patterns import RowPatterns
from dts_assets.stages.row_places import POSITION, places_in, positions_of
from dts_assets.stages.sent_columns import CHANGE, sent_marks
from dts_assets.stages.shard_truncations import next_truncations
from dts_assets.stages.stored_images import IMAGES
from dts_assets.stages.unknown_values import unknown_masks

_PLACE = (*POSITION, "piece", "row_number")
"""The columns of an operation that tell where its change stands.

``piece`` is the Kafka partition of a piece of an event.
"""


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations on keys, and the rows that they leave at them.

    ``touches`` has a row for each operation: ``takes``, ``begins`` (a row of its own begins: an insert or a read), its place
    (``lineage``, ``file``, ``position``, ``piece``, ``row_number``), the key (``k0``, ``k1``, ... and, where keys may not fit,
    their texts ``u0``, ...), the number of its ``row`` in ``rows``, null where the key is left, and if asked for the ``hash`` of
    the key and the hash of the ``other`` key where the row moves and lacks columns, else null. For a history it has ``op``, too,
    the ``time`` of the change in microseconds, and ``ended`` of a version that stands and has ended: no row is left at its key.
    With soft deletes an operation that leaves a key has a row, too: the one that was deleted. Some operations are ``ambiguous``:
    their change does not say all columns of its key. In a bag some send a part of their row, and have the marks of
    ``stages/sent_columns.py``. Of keys that no rule of servers tells ``n0``, ... are the marks. Of a table with a row filter some
    are ``open``, and have further marks once they are judged (``stages/judged_changes.py``).

    ``rows`` has the columns that are not of the key by their places, ``v2``, then if some text or absence is told ``t2`` and
    ``a2``, if some value is told by no rule of servers ``n2``, and what the snapshot shows of the change.
    """

    touches: pa.RecordBatch
    rows: pa.RecordBatch

    @property
    def count(self) -> int:
        """The number of operations."""
        return int(self.touches.num_rows)

    @property
    def keys(self) -> list[pa.Array]:
        """The columns that tell keys apart."""
        return [
            self.touches.column(name) for name in self.touches.schema.names if name[0] in "ku" and name[1:].isdigit()
        ]

    @property
    def takes(self) -> Mask:
        """The operations that take their key."""
        return as_mask(self.touches.column("takes"))

    def marked(self, name: str) -> Mask:
        """Return the operations that have a mark, such as ``open``."""
        if name not in self.touches.schema.names:
            return np.zeros(self.count, np.bool_)
        return as_mask(pc.fill_null(self.touches.column(name), fill_value=False))

    def numbers(self, name: str) -> Numbers:
        """Return a column of numbers of all operations."""
        return as_numbers(self.touches.column(name))

    def row_numbers(self, chosen: Numbers) -> Numbers:
        """Return the numbers in ``rows`` of the rows that some operations have; each has one."""
        return as_numbers(self.touches.column("row").take(pa.array(chosen)))

    def hashes(self, name: str = "hash") -> Hashes:
        """Return the hashes of the keys, or of the other keys; zero where there is none."""
        return np.asarray(pc.fill_null(self.touches.column(name), 0).to_numpy(zero_copy_only=False), np.uint64)

    @property
    def ambiguous(self) -> Mask | None:
        """The operations of changes that may mean several rows of a bag; None where there is none."""
        return self.marked("ambiguous") if "ambiguous" in self.touches.schema.names else None

    def chosen(self, which: Mask | Numbers) -> Operations:
        """Return some operations, by mask or by number, with the rows that they need."""
        at = np.flatnonzero(which) if which.dtype == np.bool_ else which
        touches = self.touches.take(pa.array(at))
        row = touches.column("row")
        needed, has = as_numbers(row.drop_null()), as_mask(row.is_valid())
        if np.all(needed[1:] > needed[:-1]):  # as they stand in parts of a changelog, and need not be looked up
            moved = pa.array(np.cumsum(has) - 1, pa.int64(), mask=~has)
        else:
            needed = np.unique(needed)
            moved = pc.index_in(row, value_set=pa.array(needed, pa.int64()), skip_nulls=True).cast(pa.int64())
        touches = touches.set_column(touches.schema.get_field_index("row"), "row", moved)
        return Operations(touches, self.rows.take(pa.array(needed)))

    def to_bytes(self) -> bytes:
        """Return the operations as compressed bytes, for another task."""
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for batch in (self.touches, self.rows):
            with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
                writer.write_batch(batch)
        return sink.getvalue()

    @classmethod
    def of_bytes(cls, data: bytes) -> Operations:
        """Return the inverse of :meth:`to_bytes`."""
        source = io.BytesIO(data)
        read = [pa.ipc.open_stream(source).read_all().combine_chunks() for _ in range(2)]
        touches, rows = (_one_batch(table) for table in read)
        return cls(touches, rows)


def operations_of(
    batch: pa.RecordBatch, shape: RowShape, counted: Counted, *, hashed: bool = False, with_rows: bool = True
) -> Operations:
    """Return the operations of the changes in a batch of a changelog that count.

    ``hashed`` asks for hashes; without ``with_rows`` the keys come alone. A key that is computed again counts all its
    operations, any other key only newer ones.
    """
    mask = counted.held(batch)
    kept = batch if mask.all() else batch.filter(pa.array(mask))
    changes = Changes(kept, shape)
    touches, source = _touches(changes, hashed=hashed or counted.again is not None)
    if counted.again is not None:
        again = among_sorted(_hashes(touches), counted.again)
        counts = again | counted.fresh(kept)[source]
        touches, source = touches.filter(pa.array(counts)), source[counts]
    takes = as_mask(touches.column("takes"))
    deleted = _deletes_softly(changes, source, takes)
    made = takes | deleted
    row = np.cumsum(made) - 1
    touches = touches.append_column("row", pa.array(row, pa.int64(), mask=~made))
    if not with_rows:
        return Operations(touches, _rows(changes, source[:0]))
    rows = _rows(changes, source[takes])
    if deleted.any():  # the operations that leave keys stand behind those that take them
        rows = _one_after_another([rows, _rows(changes, source[deleted], "before")])
    return Operations(touches, rows)


def standing(rows: pa.RecordBatch, shape: RowShape, texts: Mapping[int, pa.Array], *, hashed: bool) -> Operations:
    """Return rows of a snapshot as operations older than any change.

    ``texts`` has the source's texts of values that do not fit, by the place of their column.
    """
    count = rows.num_rows
    keys = key_columns(
        shape, [rows.column(shape.names[place]) for place in shape.keys], [texts.get(n) for n in shape.keys]
    )
    place = {name: pa.array(np.full(count, -1 if name == "lineage" else 0, np.int64)) for name in _PLACE}
    takes = as_mask(rows.column(DELETED_AT).is_null()) if shape.is_soft else np.ones(count, np.bool_)
    touches = {"takes": pa.array(takes), "begins": pa.array(takes), **place, **keys}
    if shape.versions:
        touches |= _place_of_versions(rows)
        takes = as_mask(touches["takes"])
    if hashed:
        touches |= {"hash": pa.array(hash_keys(list(keys.values()))), "other": pa.nulls(count, pa.uint64())}
    touches["row"] = pa.array(np.arange(count), mask=~takes if shape.versions else None)
    values = {f"v{place}": rows.column(shape.names[place]) for place in shape.values}
    values |= {f"t{place}": texts[place] for place in shape.values if place in texts}
    places = {name: place for place, name in enumerate(shape.names)}
    marks = {places[name]: pa.array(mask) for name, mask in unknown_masks(rows).items() if name in places}
    touches |= {f"n{number}": marks[place] for number, place in enumerate(shape.keys) if place in marks}
    values |= {f"n{place}": marks[place] for place in shape.values if place in marks}
    if not shape.versions:
        values |= {name: rows.column(name) for name in (*shape.shown, *([DELETED_AT] if shape.is_soft else []))}
    return Operations(pa.RecordBatch.from_pydict(touches), _batch_of(values, count))


_BEFORE = 1 << 32
"""The number that is taken from the lineage of a version that stands.

So the version is older than any change, and versions that stand keep their order.
"""


def _place_of_versions(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the operation, time, place and end of versions that stand."""
    begin, ended = rows.column("_valid_from_position"), rows.column("_valid_to").is_valid()
    lineage, file, offset = places_in(begin)
    return {
        "takes": pc.invert(ended),
        "op": rows.column("_op"),
        "time": pa.array(microseconds(rows.column("_valid_from"))),
        "ended": pa.array(microseconds(rows.column("_valid_to")), mask=~as_mask(ended)),
        "lineage": pa.array(lineage - _BEFORE),
        "file": pa.array(file),
        "position": pa.array(offset),
        # Of several versions that one event made the last may be open.
        "row_number": pc.invert(ended).cast(pa.int64()),
    }


def eras_of(operations: Operations, truncations: Sequence[Truncation], shard_keys: Sequence[int] = ()) -> Numbers:
    """Return for each operation the number of truncations before it, which is that of the next one.

    ``truncations`` are in the order of their positions. A truncation empties the table of changes at its own position, too. Where
    they empty shards, which the columns of keys at ``shard_keys`` tell, the next one is that of the operation's shard.
    """
    if not truncations:
        return np.zeros(operations.count, np.int64)
    if shard_keys:
        shards = [operations.touches.column(f"k{number}") for number in shard_keys]
        lineage, file, offset = (operations.numbers(name) for name in POSITION)
        return next_truncations(shards, (lineage, file, offset), [(one.position, one.shard) for one in truncations])
    columns = [
        np.append(np.array([getattr(cut.position, name) for cut in truncations], np.int64), operations.numbers(name))
        for name in POSITION
    ]
    is_change = np.arange(len(columns[0])) >= len(truncations)
    order = np.lexsort((~is_change, *reversed(columns)))
    before = np.cumsum(~is_change[order])
    found = np.zeros(len(order), np.int64)
    found[order] = before
    return found[len(truncations) :]


def begin_of(operations: Operations) -> tuple[Numbers, Numbers, Numbers]:
    """Return the source positions at which the versions of operations begin: lineages, file numbers, positions."""
    lineage, file, offset = (operations.numbers(name) for name in POSITION)
    return np.where(lineage < 0, lineage + _BEFORE, lineage), file, offset


def joined(parts: Sequence[Operations]) -> Operations:
    """Return the operations of all parts, of which there is at least one, as one."""
    if len(parts) == 1:
        return parts[0]
    before, changes, touches = 0, 0, []
    for part in parts:
        row = part.touches.schema.get_field_index("row")
        mine = part.touches.set_column(row, "row", pc.add(part.touches.column("row"), before))
        before += part.rows.num_rows
        if CHANGE in mine.schema.names:
            at = mine.schema.get_field_index(CHANGE)
            mine = mine.set_column(at, CHANGE, pc.add(mine.column(CHANGE), changes))
            changes = (pc.max(mine.column(CHANGE)).as_py() or changes) + 1
        touches.append(mine)
    return Operations(_one_after_another(touches), _one_after_another([part.rows for part in parts]))


def least_position(operations: Operations) -> SourcePosition | None:
    """Return the least position of the changes of some operations; None without an operation."""
    if not operations.count:
        return None
    lineage, file, position = (operations.numbers(name) for name in POSITION)
    first = np.lexsort((position, file, lineage))[0]
    return SourcePosition(int(lineage[first]), int(file[first]), int(position[first]))


def partial_moves(operations: Operations) -> tuple[Hashes, Hashes]:
    """Return the hashes of the keys that changes which lack columns move rows between: left, and taken."""
    moves = as_mask(operations.touches.column("other").is_valid()) & operations.takes
    return operations.hashes("other")[moves], operations.hashes()[moves]


def shared_out(
    operations: Operations,
    buckets: int,
    linked: Mapping[str, Hashes] | None = None,
    patterns: RowPatterns | None = None,
) -> list[Operations]:
    """Return operations as shares, by the hashes of their keys.

    ``linked`` has keys between which rows move (``member``, sorted) and the number that all members of a group have
    (``group``): they go to one share. All rows that fit one of the ``patterns`` go to the first share.
    """
    hashes = operations.hashes()
    if linked is not None and len(linked["member"]):
        at = np.minimum(np.searchsorted(linked["member"], hashes), len(linked["member"]) - 1)
        hashes = np.where(linked["member"][at] == hashes, linked["group"][at], hashes)
    bucket = hashes % np.uint64(buckets)
    if patterns is not None:
        bucket[patterns.fits(operations.keys)] = 0
    return [operations.chosen(bucket == np.uint64(number)) for number in range(buckets)]


def _touches(changes: Changes, *, hashed: bool) -> tuple[pa.RecordBatch, Numbers]:
    """Return the operations without their rows, and the number of each one's change."""
    shape, rows = changes.shape, changes.rows
    deletes, updates = is_operation(rows, "delete"), is_operation(rows, "update")
    new, old = key_of(changes, "after", "before"), key_of(changes, "before", "after")
    unsent = lacks_old_values(changes)
    # A bag counts: one row goes and one comes, also where they are equal.
    moved = np.full(changes.count, shape.is_bag)
    for one, other in zip(old.values(), new.values(), strict=True):
        moved |= differ(one, other)
    moved &= updates & (changes.has_before | shape.is_bag)
    taking, leaving = np.flatnonzero(~deletes), np.flatnonzero(deletes | moved | unsent)
    source = np.concatenate([taking, leaving])
    place = dict(zip(POSITION, positions_of(rows), strict=True))
    place["piece"], place["row_number"] = (as_numbers(rows.column(name)) for name in ("kafka_partition", "row_number"))
    begins = as_mask(pc.is_in(rows.column("op"), value_set=BEGINS))
    touches = {
        "takes": pa.array(np.arange(len(source)) < len(taking)),
        "begins": pa.array(begins[source]),
        **{name: pa.array(numbers[source]) for name, numbers in place.items()},
        **{
            name: pa.concat_arrays([new[name].take(pa.array(taking)), old[name].take(pa.array(leaving))])
            for name in new
        },
    }
    if unsent.any():
        touches["ambiguous"] = pa.array(unsent[source])
    touches |= sent_marks(changes, taking, leaving)
    for number, column in enumerate(shape.keys):
        if any(changes.unknown(image, column) is not None for image in IMAGES):
            taken, left = (changes.unknown_key(image, column) for image in ("after", "before"))
            touches[f"n{number}"] = pa.array(np.concatenate([taken[taking], left[leaving]]))
    touches |= judging_marks(rows, shape, taking, leaving)
    if shape.versions:
        touches |= {"op": rows.column("op").take(pa.array(source)), "time": pa.array(times_of(rows)[source])}
    if hashed:
        at_new, at_old = hash_keys(list(new.values())), hash_keys(list(old.values()))
        partial = moved & lacks_values(changes) & (not shape.is_bag)
        others = np.concatenate([at_old[taking], at_new[leaving]])
        touches["hash"] = pa.array(np.concatenate([at_new[taking], at_old[leaving]]))
        touches["other"] = pa.array(others, mask=~partial[source])
    return pa.RecordBatch.from_pydict(touches), source


def _deletes_softly(changes: Changes, source: Numbers, takes: Mask) -> Mask:
    """Return the operations that leave a deleted row behind; ``source`` has the number of each one's change.

    An update of a row without a key deletes none: the row is another one then.
    """
    if not changes.shape.is_soft:
        return np.zeros(len(source), np.bool_)
    return ~takes & is_operation(changes.rows, "delete")[source] if changes.shape.is_bag else ~takes


def _rows(changes: Changes, at: Numbers, image: str = "after") -> pa.RecordBatch:
    """Return an image of some changes as rows: those that they leave, or those that they delete."""
    places, shape = pa.array(at), changes.shape
    found: dict[str, pa.Array] = {}
    for place in shape.values:
        found[f"v{place}"] = changes.values(image, place).take(places)
        texts, absent = changes.texts(image, place), changes.absent(image, place)
        if texts is not None:
            found[f"t{place}"] = texts.take(places)
        if absent is not None:
            found[f"a{place}"] = pa.array(absent[at])
        unknown = changes.unknown(image, place)
        if unknown is not None:
            found[f"n{place}"] = pa.array(unknown[at])
    if not shape.versions:
        found |= {
            name: changes.rows.column(stored).take(places).cast(shape.schema.field(name).type)
            for name, stored in shape.shown.items()
        }
    if shape.is_soft:
        times = pa.array(times_of(changes.rows)[at], mask=np.full(len(at), image == "after"))
        found[DELETED_AT] = times.cast(shape.schema.field(DELETED_AT).type)
    return _batch_of(found, len(at))


def _batch_of(columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
    """Return columns as a batch, with a column of nulls where there is none.

    A batch without columns would have no rows.
    """
    return pa.RecordBatch.from_pydict(columns or {"none": pa.nulls(count)})


def _hashes(touches: pa.RecordBatch) -> Hashes:
    return np.asarray(touches.column("hash").to_numpy(zero_copy_only=False), np.uint64)


def _one_after_another(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of all batches as one batch; columns that a batch lacks are null."""
    return _one_batch(
        pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="default")
    )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    whole = table.combine_chunks()
    return pa.RecordBatch.from_arrays(
        [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in whole.columns],
        schema=whole.schema,
    )
