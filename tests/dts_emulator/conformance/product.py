"""This product as a consumer of the suite: a case goes through the flows, and snapshots are written as the suite writes rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dts_assets.flows.known_tables import known_tables
from dts_assets.model.collections import is_collection
from dts_assets.model.tables import TableId
from dts_assets.store.columns import flat_name
from dts_emulator.conformance.judge import CHANGES_OF_RESULT, QUARANTINE_OF_RESULT, ROWS_OF_RESULT
from dts_emulator.conformance.reading import CAPTURE, SCHEMA, ReadCase
from tests.flows.harness import Harness, in_order
from tests.flows.in_process import bench_in_process

HOUR = timedelta(hours=1)


def consumed(case: ReadCase, folder: Path) -> Harness:
    """A settled lake of a case, in windows of an hour."""
    times = pq.read_table(case.folder / CAPTURE, columns=["timestamp"])["timestamp"].to_pylist()
    first, last = (datetime.fromtimestamp(one.timestamp() // 3600 * 3600, UTC) for one in (min(times), max(times)))
    options: dict[str, Any] = {"schema": str(case.folder / SCHEMA)} if case.described["schema"] else {}
    if case.described["source_type"] == "MongoDB":
        options["documents"] = "canonical"
    topics: dict[str, int] = case.described["topics"]
    if len(topics) > 1:
        options["topics"] = topics
    harness = bench_in_process(folder, "conformance").open(
        case.folder / CAPTURE, format=case.format, partitions=sum(topics.values()),
        window={"every": HOUR, "start": first, "end": last + HOUR}, tables={"include": ["*"]},
        source_time_zone=case.described["source_time_zone"], **options,
    )  # fmt: skip
    harness.settle()
    return harness


def write_result(case: ReadCase, harness: Harness, results: Path) -> None:
    """Write rows, changes and the counts of quarantine of a case."""
    folder = results / case.format / case.name
    folder.mkdir(parents=True)
    known = known_tables(harness.pipeline)
    files = {TableId(one["database"], one["schema"], one["table"]): one for one in case.described["tables"]}
    for table, columns in known.items():
        shown = {flat_name(column.name): column.source_names[-1] for column in columns}
        file = files[table]["file"] if table in files else f"unknown {table}.jsonl"
        snapshot = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", table))
        if snapshot is not None:
            rows = _documents(snapshot) if is_collection(columns) else _rows(snapshot, shown)
            _write(folder / ROWS_OF_RESULT / file, rows)
        if table in files and files[table]["changes"] is not None:
            _write(folder / CHANGES_OF_RESULT / file, _changes(harness, table))
    reasons = Counter(row["reason"] for row in harness.rows("quarantine"))
    (folder / QUARANTINE_OF_RESULT).write_text(json.dumps(reasons))


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8")


def _rows(snapshot: pa.Table, shown: Mapping[str, str]) -> Iterable[Mapping[str, Any]]:
    columns = [name for name in snapshot.column_names if name in shown]
    for row in snapshot.to_pylist():
        unfit = dict(row["_invalid"] or ())
        yield {shown[name]: _text(row[name], unfit.get(name)) for name in columns}


def _documents(snapshot: pa.Table) -> Iterable[Mapping[str, Any]]:
    for text in snapshot["document"].to_pylist():
        yield {"_id": json.dumps(json.loads(text)["_id"], ensure_ascii=False), "document": text}


def _changes(harness: Harness, table: TableId) -> Iterable[Mapping[str, Any]]:
    changelog = harness.pipeline.lake.scan(harness.pipeline.table_path("changelog", table))
    assert changelog is not None
    for row in in_order(changelog.to_pylist()):
        unfit, absent = dict(row["invalid"] or ()), tuple(row["absent"] or ())
        yield {
            "op": row["op"],
            **{
                side: None if row[side] is None else {
                    name: _text(value, unfit.get(f"{side}.{name}")) for name, value in row[side].items()
                    if f"{side}.{name}" not in absent
                }
                for side in ("before", "after")
            },
            "absent": sorted(absent),
        }  # fmt: skip


def _text(value: Any, unfit: str | None) -> str | None:
    if value is None:
        return unfit
    if isinstance(value, datetime):
        return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ", "microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
