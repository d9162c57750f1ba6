"""Changes that stand behind different schemas of their table, in the columns that the table has at last.

Each change is read by the schema of its own position, and its values go through the statements that came behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.altered_rows import Cells
from dts_assets.stages.keys import Mask, Numbers, as_mask
from dts_assets.stages.mapped_texts import as_texts
from dts_assets.stages.row_places import Place, begun_at
from dts_assets.stages.shard_ways import ShardWays
from dts_assets.stages.sql_text import with_nulls
from dts_assets.stages.stored_images import IMAGES, StoredImages
from dts_assets.stages.value_paths import ValuePath, followed
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.ddl.table_schemas import Family


@dataclass(frozen=True, slots=True)
class PastSchema:
    """A schema that changes were made under, from a position on (None: from the first change on).

    For each column of the table it has the ``paths`` of the values, and the ``fields`` that a changelog may have for its origin.
    An insert that does not send a column has its default, by the path in ``defaults``; None where no default is known.
    """

    since: SourcePosition | None
    paths: tuple[ValuePath, ...]
    fields: tuple[tuple[str, ...], ...]
    defaults: tuple[ValuePath | None, ...]


@dataclass(frozen=True, slots=True)
class FollowedColumns:
    """The columns of a table by all schemas of its changes, in the order of their positions.

    ``types`` are the lake types of the columns. The values of those whose places are ``mapped`` are the texts of such values. Of
    a merged table ``shards`` tells the number of a change's schema by its shard, too. Values that ``stand`` go through no
    statement: changes have them as they were stored, and defaults alone are those of the schemas.
    """

    schemas: tuple[PastSchema, ...]
    types: tuple[str, ...]
    family: Family | None = None
    mapped: frozenset[int] = frozenset()
    shards: ShardWays | None = None
    stand: bool = False

    @property
    def may_be_unfit(self) -> bool:
        """True if values may not fit the types that they get."""
        return any(path.may_not_fit for schema in self.schemas for path in schema.paths)

    def schemas_of(self, positions: Place, shards: Sequence[pa.Array] = ()) -> Numbers:
        """Return the number of the schema of each change, by lineages, file numbers and positions.

        Of a merged table ``shards`` are the columns that tell the shards of the changes.
        """
        if self.shards is not None:
            return self.shards.numbers(shards, positions)
        return begun_at([one.since for one in self.schemas[1:] if one.since], positions)


class FollowedImages:
    """Both images of changelog rows in the columns that their table has at last."""

    def __init__(self, rows: pa.RecordBatch, columns: FollowedColumns, schemas: Numbers) -> None:
        """Take changelog rows with the number of each one's schema."""
        self._columns, self._count = columns, rows.num_rows
        numbers = np.unique(schemas).tolist() or [len(columns.schemas) - 1]
        self._at = [np.flatnonzero(schemas == number) for number in numbers]
        self._schemas = [columns.schemas[number] for number in numbers]
        whole = len(numbers) == 1
        self._parts = [
            StoredImages(rows if whole else rows.take(pa.array(at)), schema.fields)
            for at, schema in zip(self._at, self._schemas, strict=True)
        ]
        self._inserts = [as_mask(pc.equal(part.rows.column("op"), "insert")) for part in self._parts]
        self._back = np.argsort(np.concatenate(self._at)) if not whole else None
        self._made = {image: [self._column(image, place) for place in range(len(columns.types))] for image in IMAGES}

    def values(self, image: str, place: int) -> pa.Array:
        """Return an image's values of the column at a place, null where there is no image."""
        return self._made[image][place][0]

    def texts(self, image: str, place: int) -> pa.Array | None:
        """Return the source's texts of values that do not fit, null where they do; None where all fit."""
        return self._made[image][place][1]

    def unknown(self, image: str, place: int) -> Mask | None:
        """Return the changes whose value no rule of servers tells, or was NULL until a statement.

        None stands for no such change.
        """
        return self._made[image][place][2]

    def absent(self, image: str, place: int) -> Mask | None:
        """Return the changes whose image did not send the column at a place; None where all sent it.

        A column that was added behind a change has its default there, as if the change had sent it.
        """
        masks = [self._lacking(number, image, place)[0] for number in range(len(self._parts))]
        return None if all(mask is None for mask in masks) else self._gathered(masks)

    def _lacking(self, number: int, image: str, place: int) -> tuple[Mask | None, Mask | None]:
        """Return the rows of a part that lack a column, and those that have its default instead."""
        part, schema = self._parts[number], self._schemas[number]
        absent = part.absent(image, place) if schema.paths[place].origin is not None else None
        if absent is None or image == "before" or schema.defaults[place] is None:
            return absent, None
        inserts = absent & self._inserts[number]
        return absent & ~inserts, inserts

    def _column(self, image: str, place: int) -> tuple[pa.Array, pa.Array | None, Mask | None]:
        values, texts, unknown = [], [], []
        for number, (part, schema) in enumerate(zip(self._parts, self._schemas, strict=True)):
            path, has = schema.paths[place], part.has(image)
            stored = part.values(image, place) if path.origin is not None else None
            told = part.texts(image, place) if path.origin is not None else None
            kind, count = self._columns.types[place], len(has)
            if self._columns.stand:
                kept = pa.nulls(count, arrow_type(kind)) if stored is None else held_as(stored, arrow_type(kind))
                cells = Cells.of(kept, told)
            else:
                cells = followed(path, stored, told, count, kind, self._columns.family)
            default, inserts = schema.defaults[place], self._lacking(number, image, place)[1]
            is_filled = default is not None and inserts is not None and bool(inserts.any())
            if default is not None and inserts is not None and is_filled:
                filled = followed(default, None, None, count, kind, self._columns.family)
                cells = cells.with_others(filled, inserts)
            cells = as_texts(cells) if place in self._columns.mapped else cells
            without = ~has & np.asarray(cells.values.is_valid())
            values.append(with_nulls(cells.values, without) if without.any() else cells.values)
            texts.append(with_nulls(cells.texts, ~has) if path.has_steps and not has.all() else cells.texts)
            unknown.append(cells.marked & has if path.has_steps or is_filled else None)
        is_text = any(len(one) - one.null_count for one in texts)
        is_unknown = any(one is not None and one.any() for one in unknown)
        return (
            self._whole(values),
            self._whole(texts) if is_text else None,
            self._gathered(unknown) if is_unknown else None,
        )

    def _whole(self, parts: Sequence[pa.Array]) -> pa.Array:
        return parts[0] if self._back is None else pa.concat_arrays(parts).take(pa.array(self._back))

    def _gathered(self, parts: Sequence[Mask | None]) -> Mask:
        found = np.zeros(self._count, np.bool_)
        for at, mask in zip(self._at, parts, strict=True):
            if mask is not None:
                found[at] = mask
        return found
