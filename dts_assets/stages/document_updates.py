"""Updates of documents applied to the documents that stood at their keys.

An update tells ``$set`` and ``$unset`` alone, so its document is made from the one before, change by change. An update of a
document that nobody has seen makes none: it is left out, and counted. A path that does not fit the document before is counted,
too: the source updated another document than this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dts_assets.model.removals import ALL_REMOVED, NotRemoved
from dts_assets.stages.change_columns import RowShape, Truncation
from dts_assets.stages.key_operations import Operations, eras_of
from dts_assets.stages.keys import Keys, Mask, Numbers, as_mask
from dts_assets.stages.row_folds import by_key_in_order, starts_of
from dts_assets.wire.documents.extended_json import relaxed, text_of, value_of
from dts_assets.wire.documents.updates import updated


def with_documents(
    operations: Operations, shape: RowShape, truncations: Sequence[Truncation] = ()
) -> tuple[Operations, NotRemoved]:
    """Return operations with the documents that their updates lead to, in the form that the table shows.

    Operations of a table that is no collection come back as they are. ``truncations`` are in the order of their positions.
    """
    place = shape.documents
    if place is None or shape.is_bag:
        return operations, ALL_REMOVED
    operations = _in_form(operations, place) if shape.relaxes else operations
    partial = _updates(operations, place)
    if not partial.any():
        return operations, ALL_REMOVED
    codes = Keys(operations.keys).codes
    groups = codes * (len(truncations) + 1) + eras_of(operations, truncations, shape.shard_keys)
    order = by_key_in_order(operations, groups)
    begins = np.flatnonzero(starts_of(order, groups))
    ends = np.append(begins[1:], len(order))
    has_updates = np.logical_or.reduceat(partial[order], begins)
    left = _Walk(operations, place, partial)
    for start, end in zip(begins[has_updates].tolist(), ends[has_updates].tolist(), strict=True):
        left.follow(order[start:end].tolist())
    return left.operations(), NotRemoved(unseen=len(left.unseen), misfits=left.misfits)


def _updates(operations: Operations, place: int) -> Mask:
    """Return the operations that tell a part of their document."""
    found = np.zeros(operations.count, np.bool_)
    name = f"a{place}"
    if name not in operations.rows.schema.names:
        return found
    partial = as_mask(operations.rows.column(name).fill_null(False))
    partial &= as_mask(operations.rows.column(f"v{place}").is_valid())
    taking = np.flatnonzero(operations.takes)
    found[taking] = partial[operations.row_numbers(taking)]
    return found


class _Walk:
    """The documents of keys, change by change."""

    def __init__(self, operations: Operations, place: int, partial: Mask) -> None:
        self._operations, self._place, self._partial = operations, place, partial
        self._takes = operations.takes.tolist()
        rows = operations.touches.column("row")
        self._rows = rows.to_pylist()
        self._texts: list[str | None] = operations.rows.column(f"v{place}").to_pylist()
        self._made: list[int] = []
        self.unseen: list[int] = []
        self.misfits = 0

    def follow(self, operations: Sequence[int]) -> None:
        """Apply the updates among the operations on one key, which are in their order."""
        text, document = None, None
        for number in operations:
            row = self._rows[number]
            if not self._takes[number]:
                text, document = None, None
            elif not self._partial[number]:
                text, document = self._texts[row], None
            elif text is None:
                self.unseen.append(number)
            else:
                found = updated(value_of(text) if document is None else document, value_of(self._texts[row] or "{}"))
                self.misfits += bool(found.doubts)
                document, text = found.document, text_of(found.document)
                self._texts[row] = text
                self._made.append(row)

    def operations(self) -> Operations:
        """Return the operations with whole documents, without updates of documents that nobody has seen."""
        rows, place = self._operations.rows, self._place
        absent = as_mask(rows.column(f"a{place}").fill_null(False)).copy()
        absent[np.asarray(self._made, np.int64)] = False
        columns = {
            f"v{place}": pa.array(self._texts, rows.schema.field(f"v{place}").type),
            f"a{place}": pa.array(absent),
        }
        for name, values in columns.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, values)
        kept = np.ones(self._operations.count, np.bool_)
        kept[np.asarray(self.unseen, np.int64)] = False
        touches = self._operations.touches
        return replace(self._operations, touches=touches if kept.all() else touches.filter(pa.array(kept)), rows=rows)


def _in_form(operations: Operations, place: int) -> Operations:
    """Return operations whose documents are in relaxed form, as those that stand are."""
    rows, name = operations.rows, f"v{place}"
    fresh = np.flatnonzero(operations.numbers("lineage") >= 0)
    mine: Numbers = np.unique(
        operations.row_numbers(fresh[as_mask(operations.touches.column("row").is_valid())[fresh]])
    )
    texts = rows.column(name).to_pylist()
    for row in mine.tolist():
        if (text := texts[row]) is not None:
            texts[row] = text_of(relaxed(value_of(text)))
    rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(texts, rows.schema.field(name).type))
    return replace(operations, rows=rows)
