"""Documents of DDS: how fast they are read, and what updates of their parts cost.

``python -m benchmarks.documents`` prints a table and, as its last line, one JSON object.

- ``read-lines``, ``read-flat``, ``read-large``: the processor time of ``json.loads`` over documents as canonical Extended JSON,
  by that of ``entries()`` and ``changes()`` over messages with these documents in shell syntax; least of several turns each.
  ``lines`` has orders with some lines, ``flat`` many fields of all types, ``large`` orders with hundreds of lines. Texts of the
  changes are compared with the ones that ``json.loads`` got first.
- ``patches``: a collection of documents of 1 KB stands in a snapshot. A window replaces some of them, the next one updates as
  many by paths (``$set``). The ratio is the CPU seconds of the process tree for the second window's changelog and snapshot, by
  those for the first one's. What the snapshot holds then is compared with the documents as they were made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.command import Options, finish, least_in_turns, load, say
from benchmarks.processor_time import cost
from benchmarks.traffic import HOUR, START, PartitionFile
from benchmarks.workbench import Recording, Workbench, workbench
from dts_assets.flows.entries import materialize_entries
from dts_assets.flows.raw import materialize_raw
from dts_assets.flows.tables import materialize_tables
from dts_assets.model.collections import COLLECTION, lake_column
from dts_assets.model.spans import Span
from dts_assets.model.tables import TableId
from dts_assets.wire.drs_json import DrsJson

COLLECTION_ID = TableId("shop", "", "orders")
COLUMNS = tuple(lake_column(one, "string") for one in COLLECTION)
_AT = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Texts:
    """A document in two spellings: shell syntax as DRS sends it, and canonical Extended JSON."""

    shell: str
    canonical: str


def _joined(fields: Mapping[str, Texts]) -> Texts:
    shell = ", ".join(f'"{name}": {value.shell}' for name, value in fields.items())
    canonical = ",".join(f'"{name}":{value.canonical}' for name, value in fields.items())
    return Texts(f"{{{shell}}}", f"{{{canonical}}}")


def _list(items: Sequence[Texts]) -> Texts:
    return Texts(f"[{', '.join(one.shell for one in items)}]", f"[{','.join(one.canonical for one in items)}]")


def _int(number: int) -> Texts:
    return Texts(str(number), f'{{"$numberInt":"{number}"}}')


def _long(number: int) -> Texts:
    return Texts(f"NumberLong({number})", f'{{"$numberLong":"{number}"}}')


def _text(text: str) -> Texts:
    return Texts(f'"{text}"', f'"{text}"')


def _decimal(number: int) -> Texts:
    text = f"{number // 100}.{number % 100:02}"
    return Texts(f'NumberDecimal("{text}")', f'{{"$numberDecimal":"{text}"}}')


def _id(number: int) -> Texts:
    return Texts(f'ObjectId("{number:024x}")', f'{{"$oid":"{number:024x}"}}')


def _date(seconds: int) -> Texts:
    at = datetime.fromtimestamp(_AT.timestamp() + seconds, UTC)
    milliseconds = int(at.timestamp()) * 1000
    return Texts(f'ISODate("{at:%Y-%m-%dT%H:%M:%SZ}")', f'{{"$date":{{"$numberLong":"{milliseconds}"}}}}')


_YES = Texts("true", "true")
_NULL = Texts("null", "null")


def _order(number: int, lines: int) -> Texts:
    sold = [
        _joined({"sku": _text(f"article {line}"), "quantity": _int(line + 1), "price": _decimal(number + line)})
        for line in range(lines)
    ]
    address = {"street": _text("Hauptstrasse 1"), "city": _text("Köln"), "zip": _text(f"{number % 100_000:05}")}
    return _joined(
        {
            "_id": _id(number),
            "customer": _int(number % 9999),
            "at": _date(number),
            "lines": _list(sold),
            "address": _joined(address),
            "note": _text("to be left with the neighbours " * (number % 5)),
            "paid": _YES,
        }
    )


def _flat(number: int) -> Texts:
    kinds = (_int, _long, _decimal, _date, lambda value: _text(f"value {value}"), lambda _: _NULL)
    return _joined({"_id": _id(number)} | {f"field_{place}": kinds[place % 6](number + place) for place in range(30)})


READ: Mapping[str, Callable[[int], Texts]] = {
    "read-lines": lambda number: _order(number, 1 + number % 6),
    "read-flat": _flat,
    "read-large": lambda number: _order(number, 300),
}
CASES = (*READ, "patches")


def _message(number: int, fields: Mapping[str, object]) -> bytes:
    second = int(START.timestamp()) + number // 1000
    head = {
        "id": number + 1, "dbType": "MongoDB", "db": COLLECTION_ID.database, "coll": COLLECTION_ID.table, "es": second * 1000,
        "ts": second * 1000, "clusterTime": f"{second}:{number % 1000 + 1}",
    }  # fmt: skip
    return json.dumps({**head, **fields}, ensure_ascii=False, separators=(",", ":")).encode()


def _inserted(number: int, text: str) -> bytes:
    return _message(number, {"op": "INSERT", "recordType": "insert", "value": text})


def read(case: str, *, size: int, turns: int) -> tuple[float, Mapping[str, object]]:
    """Return the time of ``json.loads`` by ours over about ``size`` bytes of documents, and the figures behind it.

    Raises:
        SystemExit: The changes have other texts.
    """
    documents: list[Texts] = []
    total = 0
    while total < size:
        documents.append(READ[case](len(documents)))
        total += len(documents[-1].shell)
    messages = pa.array([_inserted(number, one.shell) for number, one in enumerate(documents)], pa.binary())
    texts, wire = [one.canonical for one in documents], DrsJson()

    def ours() -> Any:
        return wire.changes(wire.entries(messages).batch, {COLLECTION_ID: COLUMNS})

    (made,) = ours().tables
    if [row["document"] for row in made.batch["after"].to_pylist()] != texts:
        raise SystemExit(f"{case}: the changes have other documents")
    spent = least_in_turns({"loads": lambda: [json.loads(text) for text in texts], "ours": ours}, turns)
    figures = {
        "documents": len(texts),
        "bytes": total // len(texts),
        "seconds": {name: round(seconds, 4) for name, seconds in spent.items()},
    }
    return spent["loads"] / spent["ours"], figures


def _row(number: int, version: int) -> str:
    rest = f'"pad": "{"x" * 900}", "lines": {{"sold": [1, 2, {number}]}}, "at": ISODate("2026-01-05T00:00:00Z")'
    return f'{{"_id": {number}, "version": {version}, {rest}}}'


def _windows(documents: int, changes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the window and the value of every message: inserts, replacements, updates."""
    number = 0
    for one in range(documents):
        yield 0, _inserted(number, _row(one, 0))
        number += 1
    chosen = np.random.default_rng(7).choice(documents, changes, replace=False).tolist()
    for window in (1, 2):
        for one in chosen:
            value = _row(one, window) if window == 1 else f'{{"$set": {{"version": {window}, "lines.sold.1": 7}}}}'
            kind = "replace" if window == 1 else "update"
            yield (
                window,
                _message(number, {"op": "UPDATE", "recordType": kind, "value": value, "where": f'{{"_id": {one}}}'}),
            )
            number += 1


def _record(bench: Workbench, documents: int, changes: int) -> Recording:
    folder = bench.folder / "capture"
    folder.mkdir()
    file, payload = PartitionFile(folder, 0), 0
    for window, value in _windows(documents, changes):
        file.add([value], int((START + window * HOUR).timestamp() * 1000) + 1000)
        payload += len(value)
    file.close()
    return Recording(folder, 1, 3, payload, format="drs-json")


def patches(documents: int, changes: int) -> tuple[float, Mapping[str, object]]:
    """Return the CPU seconds of updates by those of replacements, and the figures behind it.

    Raises:
        SystemExit: The snapshot holds other documents.
    """
    with workbench() as bench:
        pipeline = bench.pipeline("documents", _record(bench, documents, changes))
        spent = []
        for number in range(3):
            window = pipeline.grid.at(number)
            span = Span(tuple(pipeline.kafka_partitions), (window,))
            materialize_raw(pipeline, span, spark=lambda: bench.spark, progress=lambda _: None)
            materialize_entries(pipeline, span, spark=lambda: bench.spark, progress=lambda _: None)
            spent.append(
                cost(
                    lambda: materialize_tables(pipeline, [window], spark=lambda: bench.spark, progress=lambda _: None)  # noqa: B023 -- called at once
                )
            )
            say(f"window {number}: {spent[-1][0]:.1f} CPU s")
        path = pipeline.table_path("snapshot", COLLECTION_ID)
        rows = pipeline.lake.catalog.load_table(pipeline.lake.identifier(path)).scan(
            selected_fields=("_id", "document")
        ).to_arrow()  # fmt: skip
    changed = [json.loads(text) for text in rows["document"].to_pylist() if '"version":2' in text]
    if rows.num_rows != documents or len(changed) != changes or any(one["lines"]["sold"][1] != 7 for one in changed):
        raise SystemExit("the snapshot holds other documents")
    (_, replaced, patched) = (cpu for cpu, _ in spent)
    figures = {"documents": documents, "changes": changes, "cpu": [round(cpu, 2) for cpu, _ in spent]}
    return patched / replaced, figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = Options("documents", __doc__)
    options.add_cases(CASES)
    options.add_turns(5)
    options.add_megabytes(8, "of documents that are read in one call")
    options.add_argument("--documents", type=int, default=1_000_000, help="in the snapshot (default 1000000)")
    options.add_argument("--changes", type=int, default=100_000, help="of them that change (default 100000)")
    chosen = options.parse_args(arguments)
    ratios: dict[str, float] = {}
    figures: dict[str, object] = {}
    for case in chosen.case or CASES:
        if case == "patches":
            ratio, figures[case] = patches(chosen.documents, chosen.changes)
        else:
            ratio, figures[case] = read(case, size=chosen.megabytes << 20, turns=chosen.turns)
        ratios[case] = round(ratio, 2)
        say(f"{case:>12} {ratios[case]:6.2f}x")
    finish("documents", ratios, {**figures, "load": load()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
