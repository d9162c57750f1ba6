"""The table registry: the source tables of a subscription and their columns.

It is a file that people can read and diff. Definitions read it to draw the graph without a network, so this module needs
nothing but the standard library. Entries are only ever added or widened; a table that the source dropped stays, because its
windows are still in the lake.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from dts_assets.errors import LakeTableError
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId, decode_part
from dts_assets.store.locks import locked

VERSION = 1

_WAY_OUT = "remove it, and the next run of entries writes it anew from the ledger"


@dataclass(frozen=True, slots=True)
class RegisteredColumn:
    """A column by its exact name, with the latest type text of the source and the lake type."""

    name: str
    original_type: str
    type: str
    is_key: bool

    @property
    def column(self) -> Column:
        """The column as the lake holds it."""
        return Column(self.name, self.type, self.is_key)


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """A source table with its columns, in the order in which they were first seen."""

    table: TableId
    columns: tuple[RegisteredColumn, ...]


def read_registry(path: Path) -> dict[TableId, RegisteredTable]:
    """Return the registered tables, by name; none if there is no file.

    Raises:
        LakeTableError: The file is no registry, or a registry of another version.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        document = json.loads(content)
        if document["version"] != VERSION:
            raise LakeTableError(
                str(path),
                f"it is a table registry of version {document['version']}, and this version of dts-assets reads {VERSION}",
                _WAY_OUT,
            )
        found = [_table(entry) for entry in document["tables"].values()]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise LakeTableError(str(path), "it is not a table registry", _WAY_OUT) from None
    return {one.table: one for one in sorted(found, key=lambda one: one.table)}


def merge_registry(path: Path, tables: Iterable[RegisteredTable]) -> dict[TableId, RegisteredTable]:
    """Add tables, columns and newer types to the file, and return all tables that it holds then.

    Several processes may do so at once; a reader sees the old file or the new one. A file that would not change is not touched.

    Raises:
        LakeTableError: The file is no registry, or a registry of another version.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{path.name}.lock")):
        before = read_registry(path)
        after = dict(before)
        for one in tables:
            after[one.table] = merged(after[one.table], one) if one.table in after else one
        after = dict(sorted(after.items()))
        if after != before:
            _write(path, after)
    return after


def merged(old: RegisteredTable, new: RegisteredTable) -> RegisteredTable:
    """Return the table with the columns of both: the old columns in their order, then the new ones.

    A column that both have is taken from ``new``.
    """
    named = {column.name: column for column in new.columns}
    kept = tuple(named.pop(column.name, column) for column in old.columns)
    return RegisteredTable(old.table, kept + tuple(named.values()))


def _table(entry: Mapping[str, Any]) -> RegisteredTable:
    columns = tuple(
        RegisteredColumn(str(one["name"]), str(one["original_type"]), str(one["type"]), bool(one["is_key"]))
        for one in entry["columns"]
    )
    parts = entry["name"] if "name" in entry else [decode_part(part) for part in entry["path"]]
    database, schema, table = parts if len(parts) == 3 else (parts[0], "", parts[1])
    return RegisteredTable(TableId(database, schema, table), columns)


def _write(path: Path, tables: Mapping[TableId, RegisteredTable]) -> None:
    """Put the new file in the place of the old one at once.

    The file has one line per column, so that a diff shows the columns that came.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as stream:
            stream.write(_text(tables))
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.chmod(0o644)
        unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _text(tables: Mapping[TableId, RegisteredTable]) -> str:
    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    entries = []
    for table, registered in tables.items():
        columns = ",\n".join(f"        {line(asdict(column))}" for column in registered.columns)
        entries.append(
            f'    {line(".".join(table.path))}: {{\n      "name": {line(astuple(table))},\n      "path": {line(table.path)},\n'
            f'      "columns": [\n{columns}\n      ]\n    }}'
        )
    body = ",\n".join(entries)
    return f'{{\n  "version": {VERSION},\n  "tables": {{\n{body}\n  }}\n}}\n'
