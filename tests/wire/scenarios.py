"""Scenario folders below ``tests/data``: messages as a format's vendor writes them, and what a decoder must make of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from google.protobuf import json_format

from dts_assets.model.collections import lake_column
from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings
from dts_assets.model.tables import TableId
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.format import ENTRIES, FRAGMENTS, DecodedEntries, Rejected, WireFormat
from dts_assets.wire.formats import wire_format
from tests.wire.avro_messages import container, encoded
from tests.wire.made import messages

DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class Scenario:
    """One folder: ``<format>/<what happens>``."""

    folder: Path

    def __str__(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def settings(self) -> FormatSettings:
        given = self._read("messages.yaml")
        told = dict(given.get("settings", {}))
        told["fields"] = tuple(told.get("fields", {}).items())
        return FormatSettings(**told, schema=self._schema(given))

    @property
    def format(self) -> WireFormat:
        return wire_format(self.folder.parent.name, self.settings)

    @property
    def expected(self) -> dict[str, Any]:
        empty: dict[str, Any] = {
            "entries": [],
            "rejected": [],
            "checkpoints": [],
            "unknown": {},
            "fragments": None,
            "changes": {},
        }
        return empty | self._read("expected.yaml")

    def messages(self, *, spaced: bool = False) -> pa.RecordBatch:
        """Its messages; ``spaced`` says that objects have blanks between their tokens, as no vendor writes them."""
        values: list[bytes | None] = []
        headers: list[list[tuple[str, bytes | None]]] = []
        given = self._read("messages.yaml")
        schema = self._schema(given) or b""
        for one in given["messages"]:
            own = [(key, value.encode()) for key, value in ({} if one is None else one.get("headers", {})).items()]
            for value in _values(one, schema, spaced=spaced):
                values.append(value)
                headers.append(own)
        return messages(*values, headers=headers)

    def _schema(self, given: Mapping[str, Any]) -> bytes | None:
        """The schema: a file of the format's folder, or the content itself."""
        schema = given.get("schema")
        if isinstance(schema, str):
            return (self.folder.parent / schema).read_bytes()
        return None if schema is None else json.dumps(schema).encode()

    def _read(self, name: str) -> dict[str, Any]:
        read: dict[str, Any] = yaml.safe_load((self.folder / name).read_text(encoding="utf-8"))
        return read


def scenarios(folder: Path = DATA) -> list[Scenario]:
    return [Scenario(one.parent) for one in sorted(folder.glob("*/*/messages.yaml"))]


def decoded(scenario: Scenario, *, spaced: bool = False) -> dict[str, Any]:
    """What the scenario's format makes of its messages, in the form of ``expected.yaml``."""
    wire = scenario.format
    fragments = wire.fragments(scenario.messages(spaced=spaced))
    assert fragments.schema.equals(FRAGMENTS)
    fragments.validate(full=True)
    found = wire.entries(pa.array(_joined(fragments), pa.binary()))
    assert found.batch.schema.equals(ENTRIES)
    found.batch.validate(full=True)
    reasons = fragments["reason"].to_pylist()
    changes = wire.changes(found.batch, _columns(wire, found))
    for one in changes.tables:
        one.batch.validate(full=True)
    rejected = [(one, "set") for one in found.rejected] + [(one, "entry") for one in changes.rejected]
    return {
        "fragments": reasons if any(reasons) else None,
        "entries": [_entry(row) for row in found.batch.to_pylist()],
        "rejected": [_rejected(one, place) for one, place in rejected],
        "checkpoints": [
            {"entry": one.index, "file": one.file_name, "position": one.position, "gtids": one.gtid_set,
             "fake_gtid": one.fake_gtid} for one in found.checkpoints
        ],
        "unknown": dict(found.unknown) | dict(changes.unknown),
        "changes": {
            str(one.table): [_change(row) for row in one.batch.to_pylist()] for one in changes.tables if one.batch.num_rows
        },
    }  # fmt: skip


def sets_of(scenario: Scenario) -> pa.Array:
    """The entry sets of a scenario."""
    return pa.array(_joined(scenario.format.fragments(scenario.messages())), pa.binary())


def entries_of(scenario: Scenario) -> tuple[pa.RecordBatch, dict[TableId, tuple[Column, ...]]]:
    """The entries of a scenario, and its tables with the columns that they describe."""
    wire = scenario.format
    found = wire.entries(sets_of(scenario))
    return found.batch, _columns(wire, found)


def _values(message: Mapping[str, Any] | None, schema: bytes, *, spaced: bool) -> Iterator[bytes | None]:
    if message is None:
        yield None
    elif "hex" in message:
        yield bytes.fromhex(message["hex"])
    elif "record" in message:
        old, new = map(bytes.fromhex, message.get("replace", ("", "")))
        head = b"" if "confluent" not in message else bytes(1) + message["confluent"].to_bytes(4, "big")
        yield head + encoded(schema, message["record"])[: message.get("cut")].replace(old, new)
    elif "container" in message:
        own = json.dumps(message["schema"]).encode() if "schema" in message else schema
        yield container(own, message["container"], codec=message.get("codec", "null"))[: message.get("cut")]
    elif "text" in message:
        yield message["text"].encode()
    elif "json" in message:
        separators = (", ", ": ") if spaced else (",", ":")
        yield json.dumps(message["json"], ensure_ascii=False, separators=separators).encode()
    else:
        entry_set = json_format.ParseDict({"items": _in_base64(message["entries"])}, pb.Entries()).SerializeToString()
        bounds = [0, *message.get("cut", []), len(entry_set)]
        for index, (start, end) in enumerate(pairwise(bounds)):
            fields = {"version": 1, "total": len(bounds) - 1, "index": index} | message.get("envelope", {})
            yield pb.Envelope(**fields, data=entry_set[start:end]).SerializeToString()


def _in_base64(value: Any) -> Any:
    """The same with ``{text: ...}`` and ``{hex: ...}`` as protobuf's JSON writes bytes."""
    if isinstance(value, dict):
        if set(value) in ({"text"}, {"hex"}):
            data = bytes.fromhex(value["hex"]) if "hex" in value else value["text"].encode()
            return base64.b64encode(data).decode()
        return {name: _in_base64(inner) for name, inner in value.items()}
    return [_in_base64(inner) for inner in value] if isinstance(value, list) else value


def _joined(fragments: pa.RecordBatch) -> list[bytes]:
    """Entry sets from fragments that follow one another, as every scenario has them."""
    sets: list[bytes] = []
    for one in fragments.to_pylist():
        if one["reason"] is None and not one["is_null"]:
            if one["index"] == 0:
                sets.append(b"")
            sets[-1] += one["data"]
    return sets


def _columns(wire: WireFormat, found: DecodedEntries) -> dict[TableId, tuple[Column, ...]]:
    tables: dict[TableId, dict[str, Column]] = {}
    for shape in found.shapes:
        for one in shape.columns:
            column = lake_column(one, wire.column_type(one.original_type, unsigned=False, table=shape.table))
            tables.setdefault(shape.table, {}).setdefault(one.name, column)
    return {table: tuple(columns.values()) for table, columns in tables.items()}


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    assert row.pop("payload")
    row["properties"] = dict(row["properties"])
    return {name: _plain(value) for name, value in row.items() if value not in (None, {})}


def _change(row: dict[str, Any]) -> dict[str, Any]:
    made = {"entry": row["entry_index"], "row": row["row_number"], "op": row["op"]}
    images = {name: row[name] for name in ("before", "after", "absent") if row[name]}
    invalid = dict(row["invalid"])
    return made | {name: _plain(value) for name, value in images.items()} | ({"invalid": invalid} if invalid else {})


def _rejected(one: Rejected, place: str) -> dict[str, Any]:
    number = {} if one.entry_number is None else {"entry_number": one.entry_number}
    return {place: one.index} | number | {"reason": str(one.reason)}


def _plain(value: Any) -> Any:
    """A value as YAML has it: numbers, texts and flags as they are, bytes as ``0x...``, all else as text."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
