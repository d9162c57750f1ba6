"""Writes the suite: cases in all their formats, their list, and the sums of all files."""

from __future__ import annotations

import hashlib
import json
import shutil
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dts_assets.model.tables import path_part
from dts_emulator.conformance.catalog import CASES, places
from dts_emulator.conformance.expected import Built, Case, ExpectedChange, ExpectedTable
from dts_emulator.conformance.reading import (
    CAPTURE,
    CASE,
    CHANGES,
    EXPECTED,
    MESSAGES,
    SCHEMA,
    SUITE,
    read_suite,
    sha256_of,
)
from dts_emulator.conformance.readme import readme
from dts_emulator.errors import NotASuite
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message

VERSION = "1.2"
"""The version of the suite; docs/conformance.md has the rule by which it grows."""

TOPIC = "conformance"

_LINE_ENDS = str.maketrans({one: f"\\u{ord(one):04x}" for one in "\x85\u2028\u2029"})


def write_suite(folder: Path, *, more: Sequence[Case] = ()) -> int:
    """Write the suite into a folder, and return the number of its cases. Another suite there is replaced.

    ``more`` are cases beside those of the catalog, which are no part of the version.

    Raises:
        NotASuite: The folder holds something else.
    """
    _clear(folder)
    cases = (*CASES, *more)
    listed = []
    for format_name, case in places(cases):
        write_case(case, format_name, folder / format_name / case.name)
        listed.append({"format": format_name, "case": case.name, "title": case.title})
    (folder / "README.md").write_text(readme(VERSION, cases), "utf-8")
    sums = {path.relative_to(folder).as_posix(): sha256_of(path) for path in _files(folder) if path.name != SUITE}
    _write(folder / SUITE, {"suite": "dts-assets conformance", "version": VERSION, "cases": listed, "sha256": sums})
    return len(listed)


def write_case(case: Case, format_name: str, folder: Path) -> None:
    """Write the files of a case in one format into a folder."""
    folder.mkdir(parents=True)
    built = case.build(format_name)
    messages = sorted(built.messages, key=lambda one: (one.topic or TOPIC, one.partition, one.offset))
    _write_lines(folder / MESSAGES, map(_message, messages))
    write_capture(built.messages, folder / CAPTURE, topic=TOPIC)
    if built.schema is not None:
        (folder / SCHEMA).write_bytes(built.schema)
    for table in built.tables:
        name = file_of(table.database, table.schema, table.name)
        _write_lines(folder / EXPECTED / name, sorted(map(_line, table.rows)), are_lines=True)
        if table.changes is not None:
            _write_lines(folder / CHANGES / name, map(_change, table.changes))
    _write(folder / CASE, _described(case, built, format_name))


def digest_of_plain_files(folder: Path) -> str:
    """Return the SHA-256 of all plain files of a suite. The writer of Parquet files has versions of its own."""
    sums = json.loads((folder / SUITE).read_text("utf-8"))["sha256"]
    lines = "".join(f"{name} {one}\n" for name, one in sorted(sums.items()) if not name.endswith(".parquet"))
    return hashlib.sha256(lines.encode()).hexdigest()


def file_of(database: str, schema: str, table: str) -> str:
    """Return the file of a table: its name parts with dots between them, ``d.a%2Eb.jsonl`` for the table ``a.b``."""
    parts = (database, schema, table) if schema else (database, table)
    return f"{'.'.join(map(path_part, parts))}.jsonl"


def _described(case: Case, built: Built, format_name: str) -> Mapping[str, Any]:
    return {
        "case": case.name,
        "format": format_name,
        "title": case.title,
        "trap": case.trap,
        "rule": case.rule,
        "assumes": built.assumes,
        "judged_by": built.judged_by,
        "source_type": built.source_type,
        "source_time_zone": built.time_zone,
        "topics": _topics(built),
        "messages": len(built.messages),
        "schema": None if built.schema is None else SCHEMA,
        "has_copies": built.has_copies,
        "lineages": built.lineages,
        "quarantine": dict(built.quarantine),
        "tables": [_table(table) for table in built.tables],
    }


def _topics(built: Built) -> Mapping[str, int]:
    """Return the topics of a case with the number of their Kafka partitions."""
    names = {one.topic or TOPIC for one in built.messages}
    return dict.fromkeys(sorted(names), built.partitions)


def _table(table: ExpectedTable) -> Mapping[str, Any]:
    return {
        "database": table.database, "schema": table.schema, "table": table.name,
        "file": file_of(table.database, table.schema, table.name),
        "columns": [{"name": one.name, "type": one.type, "kind": one.kind.value} for one in table.columns],
        "key": list(table.key), "rows": len(table.rows),
        "changes": None if table.changes is None else len(table.changes),
    }  # fmt: skip


def _message(one: Message) -> Mapping[str, Any]:
    return {
        "topic": one.topic or TOPIC, "partition": one.partition, "offset": one.offset, "timestamp": one.timestamp,
        "key": None if one.key is None else _base64(one.key), "value": _base64(one.value),
        "headers": [{"key": name, "value": _base64(value)} for name, value in one.headers],
    }  # fmt: skip


def _change(one: ExpectedChange) -> Mapping[str, Any]:
    return {"op": one.op, "before": one.before, "after": one.after, "absent": list(one.absent)}


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _line(row: object) -> str:
    """Return a line of JSON. Characters that some readers take for the end of a line are escapes."""
    return json.dumps(row, ensure_ascii=False, sort_keys=True).translate(_LINE_ENDS)


def _write_lines(path: Path, lines: Iterable[Any], *, are_lines: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{one if are_lines else _line(one)}\n" for one in lines)
    path.write_bytes(text.encode())


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_bytes((json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _clear(folder: Path) -> None:
    """Remove the suite that is in a folder.

    Raises:
        NotASuite: The folder holds something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / SUITE).is_file():
        if any(folder.iterdir()):
            raise NotASuite(folder, "it holds other files, and a suite is written into an empty folder")
        return
    for name in {one.format for one in read_suite(folder)}:
        shutil.rmtree(folder / name)
