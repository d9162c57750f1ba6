"""The rows of one data file of a snapshot, as the table has its columns now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dts_assets.stages.change_columns import RowShape
from dts_assets.stages.key_operations import Operations, standing
from dts_assets.stages.keys import Mask
from dts_assets.stages.snapshot_in_arrow import Touched, keys_of_rows, text_of
from dts_assets.store.cast import cast_to_schema
from dts_assets.store.columns import flat_name, flat_names
from dts_assets.store.delete_files import live_rows
from dts_assets.store.file_stores import FileStore

_FIELD_ID = b"PARQUET:field_id"
_BATCH_ROWS = 65536

_BOUNDED = (pa.types.is_integer, pa.types.is_string, pa.types.is_decimal)
"""The types of which a row group's bounds are compared with keys.

Arrow and Parquet order their values in one way.
"""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A data file of a snapshot table, with its bytes.

    ``rewrite`` says that it is written anew even if no change touches a row of it. ``deletes`` are the delete files that apply to
    it, and ``shared_deletes`` those among them that concern other data files, too.
    """

    path: str
    rewrite: bool = False
    bytes: int = 0
    deletes: tuple[str, ...] = ()
    shared_deletes: tuple[str, ...] = ()


class HeldRows:
    """A data file of a snapshot table, with its columns by their ids and its live rows.

    Iceberg does so, too: the file may be older than a column.
    """

    def __init__(self, file: pq.ParquetFile, held: HeldFile, shape: RowShape, store: FileStore) -> None:
        self._file = file
        self.held = held
        self.live: Mask = live_rows(store, held.path, file.metadata.num_rows, held.deletes)
        self._shape = shape
        self._schema = self._shape.schema
        by_id = {one.metadata[_FIELD_ID]: one.name for one in self._file.schema_arrow if one.metadata}
        self._stored = {
            one.name: by_id[one.metadata[_FIELD_ID]] for one in self._schema if one.metadata[_FIELD_ID] in by_id
        }
        self._former = {former: flat_name(column.name) for column in shape.columns for former in flat_names(column)[1:]}

    def touched(self, touched: Touched) -> Mask:
        """Return which live rows have a key that the changes touch."""
        names = [self._shape.names[place] for place in self._shape.keys]
        names += ["_invalid"] if self._shape.unfit else []
        found = [np.zeros(0, np.bool_)]
        for group in range(self._file.num_row_groups):
            bounds = self._bounds(group, names[0])
            if bounds is not None and not touched.reach(*bounds):
                found.append(np.zeros(self._file.metadata.row_group(group).num_rows, np.bool_))
                continue
            found += [touched.rows(keys_of_rows(batch, self._shape)) for batch in self._batches(names, [group])]
        return np.asarray(np.concatenate(found) & self.live, np.bool_)

    def _bounds(self, group: int, name: str) -> tuple[pa.Scalar, pa.Scalar] | None:
        """Return the least and the greatest value of a column in a row group.

        None stands for bounds that are not known.
        """
        kind, stored = self._schema.field(name).type, self._stored.get(name)
        if stored is None or not any(is_kind(kind) for is_kind in _BOUNDED):
            return None
        columns = self._file.metadata.row_group(group)
        at = next((n for n in range(columns.num_columns) if columns.column(n).path_in_schema == stored), None)
        found = None if at is None else columns.column(at).statistics
        if found is None or not found.has_min_max:
            return None
        return pa.scalar(found.min, kind), pa.scalar(found.max, kind)

    def chosen(self, mask: Mask) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a mask."""
        at = 0
        for batch in self._batches(self._schema.names):
            here = mask[at : at + batch.num_rows]
            at += batch.num_rows
            if here.any():
                yield batch.filter(pa.array(here))

    def standing(self, gone: Mask, touched: Touched) -> Iterator[Operations]:
        """Yield the rows of a mask as operations older than any change.

        Rows whose keys are computed again are left out.
        """
        for rows in self.chosen(gone) if gone.any() else ():
            kept = rows.filter(pa.array(~touched.rows_again(keys_of_rows(rows, self._shape))))
            texts = {place: text_of(kept.column("_invalid"), [name]) for place, name in enumerate(self._shape.names)}
            some = {place: text for place, text in texts.items() if text.null_count < len(text)}
            yield standing(kept, self._shape, some, hashed=True)

    def _batches(self, names: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield batches of some row groups (None: all) with some columns, as the table has them now.

        Columns that the file lacks are null.
        """
        wanted = pa.schema([self._schema.field(name) for name in names])
        stored = {self._stored[name]: name for name in names if name in self._stored}
        for batch in self._file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(stored)):
            named = cast_to_schema(
                batch.rename_columns([stored[name] for name in batch.schema.names]), wanted, self.held.path
            )
            yield self._respelled(named) if self._former and "_invalid" in names else named

    def _respelled(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Name the texts of values that do not fit by the present names of their columns."""
        at, texts = rows.schema.get_field_index("_invalid"), rows.column("_invalid")
        former = pa.array(self._former, pa.string())
        present = pa.array(self._former.values(), pa.string()).take(pc.index_in(texts.keys, value_set=former))
        keys = pc.coalesce(present, texts.keys)
        mask = texts.is_null() if texts.null_count else None
        made = pa.MapArray.from_arrays(texts.offsets, keys, texts.items, type=texts.type, mask=mask)
        return rows.set_column(at, rows.schema.field(at), made)
