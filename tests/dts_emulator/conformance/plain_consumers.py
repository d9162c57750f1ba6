"""Plain consumers, as somebody writes one in an afternoon with the vendor's page beside it. Nothing here is of this product.

Values are read as the pages say, and as a case assumes. Kafka partitions are read one after the other, as a consumer gets them
that catches up, and each message is applied as if it came once. Statements are passed over, a column that an image lacks is NULL,
and a message that cannot be read ends the consumer. Its changelog has each row of each message.
"""

from __future__ import annotations

import io
import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import fastavro

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.conformance.reading import MESSAGES, SCHEMA, ReadCase

Texts = dict[str, str | None]


@dataclass(frozen=True)
class Change:
    """A row of a message; ``old`` and ``new`` are the images that it has."""

    table: str
    operation: str
    keys: tuple[str, ...]
    old: Texts | None
    new: Texts | None


@dataclass
class Tables:
    """Rows by key, and lists of rows of tables without a key."""

    rows: dict[str, dict[tuple[str | None, ...], Texts]] = field(default_factory=dict)
    bags: dict[str, list[Texts]] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        """Insert, update or delete; a row that is there already is replaced."""
        if not change.keys:
            bag = self.bags.setdefault(change.table, [])
            if change.old is not None and change.old in bag:
                bag.remove(change.old)
            if change.new is not None:
                bag.append(change.new)
            return
        rows = self.rows.setdefault(change.table, {})
        for image in (change.old, change.new):
            if image is not None and all(name in image for name in change.keys):
                rows.pop(tuple(image[name] for name in change.keys), None)
        if change.new is not None:
            rows[tuple(change.new.get(name) for name in change.keys)] = change.new


def has_rows(case: ReadCase) -> bool:
    """Tell whether a case is about rows; none of the other consumers knows documents."""
    return bool(case.described["source_type"] != "MongoDB")


def consume(case: ReadCase, results: Path) -> None:
    """Write the rows that the plain consumer of a case's format ends with."""
    tables = Tables()
    read = READERS[case.format]
    messages = [json.loads(line) for line in (case.folder / MESSAGES).read_text("utf-8").split("\n") if line]
    changes: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for change in read(case, (b64decode(one["value"]) for one in messages)):
        tables.apply(change)
        told: dict[str, Any] = {"op": change.operation.lower(), "before": change.old, "after": change.new, "absent": []}
        changes[change.table].append(told)
    folder = results / case.format / case.name
    for table in case.described["tables"]:
        name = f"{table['database'] or table['schema']}.{table['table']}"
        rows = [*tables.rows.get(name, {}).values(), *tables.bags.get(name, [])]
        names = [column["name"] for column in table["columns"]]
        whole = [{name: row.get(name) for name in names} for row in rows]
        _write(folder / "rows" / table["file"], whole)
        if table["changes"] is not None:
            _write(folder / "changes" / table["file"], changes[name])


def _write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def dts_protobuf(case: ReadCase, values: Iterator[bytes]) -> Iterator[Change]:
    """Join pieces as the vendor's demo does: begin at the piece 0, end at the last one."""
    joined = b""
    for value in values:
        envelope = pb.Envelope.FromString(value)
        joined = envelope.data if envelope.index == 0 else joined + envelope.data
        if envelope.index < envelope.total - 1:
            continue
        for entry in pb.Entries.FromString(joined).items:
            event = entry.event.dmlEvent
            names = [column.name for column in event.columns]
            keys = tuple(column.name for column in event.columns if column.isKey)
            for row in event.rows:
                yield Change(
                    f"{entry.header.schemaName}.{entry.header.tableName}", pb.DMLType.Name(event.dmlEventType), keys,
                    _image(names, row.oldColumns, _protobuf_text), _image(names, row.newColumns, _protobuf_text),
                )  # fmt: skip


def _protobuf_text(data: pb.Data) -> str | None:
    if data.dataType in (pb.NIL, pb.NA):
        return None
    if data.sv:
        return data.sv
    if data.dataType == pb.BYTES or data.charset == "binary":
        text = data.bv.hex()
        return data.bv.decode() if data.bv[:1] in (b"{", b"[", b"n") else text  # JSON, too, comes as BYTES
    return data.bv.decode({"latin1": "cp1252", "gbk": "gbk"}.get(data.charset, "utf-8"))


def dts_avro(case: ReadCase, values: Iterator[bytes]) -> Iterator[Change]:
    """Read records, one change in each."""
    known: dict[str, Any] = {}
    *kinds, record = json.loads((case.folder / SCHEMA).read_bytes())
    for kind in kinds:
        fastavro.parse_schema(kind, known)
    schema = fastavro.parse_schema(record, known)
    for value in values:
        one: Any = fastavro.schemaless_reader(io.BytesIO(value), schema, None, return_record_name=True)
        if one["messageType"] not in ("INSERT", "UPDATE", "DELETE"):
            continue
        names = [column["name"] for column in one["columns"]]
        yield Change(
            f"{one['schemaName']}.{one['tableName']}", one["messageType"], tuple(one["pkNames"] or ()),
            _image(names, one["oldColumns"] or (), _avro_text), _image(names, one["newColumns"] or (), _avro_text),
        )  # fmt: skip


def _avro_text(named: tuple[str, Any]) -> str | None:
    kind, value = named[0].rpartition(".")[2], named[1]
    match kind:
        case "EmptyObject":
            return None
        case "BinaryObject":
            return bytes(value["value"]).hex()
        case "Character":
            raw: bytes = value["value"]
            if value["charset"] == "binary":
                return raw.hex()
            return raw.decode({"latin1": "cp1252", "gbk": "gbk"}.get(value["charset"], "utf-8"))
        case "Timestamp":
            moment = datetime(1970, 1, 1) + timedelta(seconds=value["timestamp"], milliseconds=value["millis"])
            return moment.isoformat(" ", "milliseconds")
        case "DateTime":
            return _avro_moment(value)
        case _:
            return str(value["value"])


def _avro_moment(value: Mapping[str, int | None]) -> str:
    day = [value["year"], value["month"], value["day"]]
    clock = [value["hour"], value["minute"], value["second"]]
    date = "-".join(f"{one:02d}" if place else f"{one:04d}" for place, one in enumerate(day) if one is not None)
    if any(one is None for one in clock):
        return date
    millis = f".{abs(value['millis']):03d}" if value["millis"] else ""
    time = ":".join(f"{abs(one or 0):02d}" for one in clock) + millis
    sign = "-" if min(one or 0 for one in (*clock, value["millis"])) < 0 else ""
    return f"{date} {sign}{time}".strip()


def flat_json(case: ReadCase, values: Iterator[bytes]) -> Iterator[Change]:
    """Read the messages of Canal and DRS, whose ``data`` and ``old`` are lists of objects."""
    text = _text_of_json(case)
    for value in values:
        one = json.loads(value)
        if one["isDdl"] or one["type"] not in ("INSERT", "INIT", "UPDATE", "DELETE"):
            continue
        kinds = one.get("mysqlType") or one.get("columnType") or {}
        data, old = one["data"] or [], one["old"] or []
        for place in range(max(len(data), len(old))):
            new = {name: text(kinds.get(name), item) for name, item in data[place].items()} if data else None
            was = {name: text(kinds.get(name), item) for name, item in old[place].items()} if old else None
            if one["type"] == "DELETE":
                new, was = None, was or new
            elif one["type"] == "UPDATE" and case.format == "canal-json" and new is not None:
                was = {**new, **(was or {})}
            table = f"{one['database']}.{one['table']}"
            yield Change(table, one["type"], tuple(one["pkNames"] or ()), was, new)


def _text_of_json(case: ReadCase) -> Callable[[str | None, str | None], str | None]:
    offset = timedelta(hours=int(case.described["source_time_zone"][:3]))
    is_drs, has_mysql_types = case.format != "canal-json", case.described["source_type"] == "MySQL"

    def text(kind: str | None, value: str | None) -> str | None:
        base = (kind or "").partition("(")[0].split(" ")[0]
        if value is None:
            return None
        if base in ("binary", "varbinary", "blob") and has_mysql_types:
            data = bytes(one & 255 for one in json.loads(value)) if is_drs else value.encode("iso-8859-1")
            return data.hex()
        if base != "timestamp" or (kind != base and "zone" in (kind or "")):
            return value
        if case.format == "drs-json":
            whole, dot, fraction = value.partition(".")
            return f"{datetime.fromtimestamp(int(whole), UTC):%Y-%m-%d %H:%M:%S}{dot}{fraction}"
        if value.startswith("0000"):
            return value
        moment = datetime.fromisoformat(value).replace(tzinfo=timezone(offset))
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")

    return text


def _image(names: list[str], values: Any, text: Callable[[Any], str | None]) -> Texts | None:
    return {name: text(value) for name, value in zip(names, values, strict=True)} if len(values) else None


READERS: Mapping[str, Callable[[ReadCase, Iterator[bytes]], Iterator[Change]]] = {
    "dts-protobuf": dts_protobuf, "dts-avro": dts_avro, "drs-json": flat_json, "drs-json-c": flat_json, "canal-json": flat_json,
}  # fmt: skip
