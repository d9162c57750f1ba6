"""A table of four rows, and a plan of other columns for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dts_assets.store.files import TableWriter
from dts_assets.store.lake import Lake
from dts_assets.store.planned_fields import PlannedField
from dts_assets.store.schemas import layout
from dts_assets.store.types import iceberg_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dts_assets.store.catalog import LakeLocation
    from dts_assets.store.commit import Replaced
    from dts_assets.store.files import WriteTarget, WrittenFile

PATH = ("shop", "snapshot", "shopdb", "items")
COLUMNS = (("id", "int"), ("a", "int"), ("b", "int"), ("tags", "map<string,string>"))
ROWS = [{"id": number, "a": number * 10, "b": -number, "tags": [("x", str(number))]} for number in range(4)]


def made_lake(location: LakeLocation, path: Sequence[str] = PATH, columns: Sequence[tuple[str, str]] = COLUMNS) -> Lake:
    """A lake with an empty table."""
    lake = Lake(location)
    lake.ensure(path, layout(iceberg_schema(columns, docs={"a": "The first letter."})))
    return lake


def filled_lake(location: LakeLocation) -> Lake:
    """A lake with a table of :data:`ROWS`."""
    lake = made_lake(location)
    lake.replace(PATH, {}, write(lake.target(PATH, "first"), ROWS))
    return lake


def write(target: WriteTarget, rows: Sequence[dict[str, Any]]) -> tuple[WrittenFile, ...]:
    shape = pa.schema([one.remove_metadata() for one in target.arrow_schema])
    with TableWriter(target) as writer:
        writer.write(pa.RecordBatch.from_pylist(list(rows), shape))
        return writer.close()


def alter(lake: Lake, *fields: PlannedField, rows: Sequence[dict[str, Any]] = (), **named: Any) -> Replaced:
    """Give the table other columns, and append rows in the same commit."""
    target, planned = lake.planned(PATH, fields, "altered")
    assert planned is not None
    named = {"keep": lambda _: True, **named}
    return lake.replace(PATH, {}, write(target, rows), columns=planned, **named)


def kept(*names: str) -> tuple[PlannedField, ...]:
    """Columns as they are, of :data:`COLUMNS`."""
    return tuple(PlannedField(name, dict(COLUMNS)[name], name) for name in names)


def shown(lake: Lake, snapshot_id: int | None = None) -> list[dict[str, Any]]:
    table = lake.scan(PATH, snapshot_id=snapshot_id)
    assert table is not None
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


def schema_id(lake: Lake) -> int:
    return lake.catalog.load_table(PATH).metadata.current_schema_id


SWAPPED = (
    PlannedField("id", "bigint", "id"),
    PlannedField("b", "int", "a"),
    PlannedField("new", "string", None),
    PlannedField("a", "int", "b"),
)
"""Two columns change their names, one is promoted, one is dropped, and one comes."""

SWAPPED_ROWS = [{"id": n, "b": n * 10, "new": None, "a": -n} for n in range(4)]
