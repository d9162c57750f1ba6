"""All benchmarks one after the other, and the README's table of what they found.

``python -m benchmarks [NAME ...] [--readme README.md]`` shows each benchmark as it runs and prints the table at the end; with
``--readme`` the lines of these benchmarks are replaced in that file, between its two ``figures`` comments. Ratios only: seconds
say more about a machine than about the code. A ratio that misses its promise carries a ✗.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

Ratios: TypeAlias = Mapping[str, float]

_BEGIN, _END = "<!-- figures -->", "<!-- end of figures -->"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a measurement, its peer, the cases that it stands for, and the promise."""

    benchmark: str
    what: str
    against: str
    cases: Callable[[str], bool]
    promised: str


def _tables(*counts: int) -> Callable[[str], bool]:
    return lambda case: "fat" not in case and int(case.partition("t-")[0]) in counts


def _huge(case: str) -> bool:
    return case.startswith(("event", "blob"))


def _json(rows: str, *, has_schema: bool) -> Callable[[str], bool]:
    return lambda case: case.endswith(rows) and case.startswith("postgresql") is has_schema


def _ordinary(case: str) -> bool:
    return not _huge(case)


TABLE: tuple[Row, ...] = (
    Row("decode", "entries to typed columns, 1 or 2 tables, one core", "a plain protobuf loop, its time by ours",
        _tables(1, 2), ">= 4.5"),
    Row("decode", "the same, 50 tables", "the same", _tables(50), ">= 4"),
    Row("decode", "the same, 1000 tables", "the same", _tables(1000), ">= 3.5"),
    Row("decode", "the same, rows with 20 KB of text and blob", "the same", lambda case: "fat" in case, ">= 1.2"),
    Row("decode_json", "DRS JSON-C to typed columns, one row a message, one core",
        "json.loads and a loop over every value, its time by ours", _json("-1r", has_schema=False), ">= 2.5"),
    Row("decode_json", "the same, 20 rows a message", "the same", _json("-20r", has_schema=False), ">= 4"),
    Row("decode_json", "DRS JSON of a PostgreSQL, one row a message", "the same",
        _json("-1r", has_schema=True), ">= 2.5"),
    Row("decode_json", "DRS JSON of a PostgreSQL, 20 rows a message", "the same",
        _json("-20r", has_schema=True), ">= 4"),
    Row("documents", "documents of DDS to changes", "json.loads of the same as Extended JSON, its time by ours",
        lambda case: case.startswith("read"), ">= 0.5"),
    Row("documents", "100,000 updates by paths among 1 million documents of 1 KB, to changelog and snapshot",
        "as many replacements, our CPU seconds by that", lambda case: case == "patches", "<= 3"),
    Row("decode_avro", "DTS Avro and DRS Avro to typed columns, one core",
        "fastavro and a loop over every value, its time by ours", lambda _: True, ">= 2"),
    Row("reassembly", "fragments to entry sets, one core", "reading the same messages, speed by its speed",
        lambda _: True, ">= 0.7"),
    Row("window", "messages to changelogs, two cores", "a plain Spark job, its time by ours",
        lambda case: case == "plain", ">= 3"),
    Row("window", "the same", "the same bytes written undecoded, our time by its time", lambda case: case == "floor", "<= 1.6"),
    Row("window", "other formats with a row a message, messages to changelogs (`--format`)",
        "the same bytes written undecoded, our time by its time", lambda case: case not in ("plain", "floor"), "<= 2.5"),
    Row("copies", "10 million rows of a MariaDB copied while it runs, two connections",
        "`SELECT *` by the same driver into Parquet, its time by ours", lambda _: True, ">= 0.7"),
    Row("truth", "ledger, identity and proof of a window without faults", "the same without them, our time by its time",
        lambda case: case == "clean", "<= 1.15"),
    Row("truth", "a tenth of the messages delivered twice", "each once, our time by that",
        lambda case: case == "redelivered", "<= 2"),
    Row("memory", "peak of a worker", "0.6 GB + 6 x its chunk", _ordinary, "<= 1"),
    Row("memory", "peak above that for one huge event", "the event's size", _huge, "<= 6"),
    Row("backfill", "200 and 1,000 windows", "the same bytes as one window and 60 ms a partition, our time by that",
        lambda _: True, "<= 1"),
    Row("source", "a Kafka topic to Arrow batches, one process", "a plain consumer loop that takes lengths, speed by its speed",
        lambda case: "rows" not in case, ">= 0.7"),
    Row("source", "the same", "a plain consumer loop that takes offset, time, key, value and headers, speed by its speed",
        lambda case: "rows" in case, ">= 0.7"),
    Row("pipeline", "a topic's backlog to snapshots: broker, sensors, runs, all stages",
        "the same bytes read and written undecoded, our time by its time", lambda case: case == "floor", "-"),
    Row("pipeline", "the same from the start of the first run on", "the same", lambda case: case == "work", "-"),
    Row("freshness", "from commit to visible row, median, 500 row changes/s in 20 tables", "60 s, our time by that",
        lambda case: case == "p50", "<= 1"),
    Row("freshness", "the same, 95 % of the rows", "120 s, our time by that", lambda case: case == "p95", "<= 1"),
    Row("startup", "a code location with 20 to 2,000 assets", "as many bare asset specs, its time by ours",
        lambda case: case.startswith("assets"), "-"),
    Row("age", "a sensor's tick after three years of windows of 64 Kafka partitions", "a second, our time by that",
        lambda case: case == "tick", "<= 1"),
    Row("age", "the same where messages carry ids, as Huawei DRS sends them", "a second, our time by that",
        lambda case: case == "tick_ids", "<= 1"),
    Row("age", "a refresh beside Spark and snapshots, there", "a second, our time by that",
        lambda case: case == "refresh", "<= 1"),
    Row("age", "the same where messages carry ids", "a second, our time by that", lambda case: case == "refresh_ids", "<= 1"),
    Row("age", "loading the definitions, there", "without windows, our time by that", lambda case: case == "load", "<= 1.5"),
    Row("sums", "a window whose snapshots carry sums", "the same without, our CPU seconds by that",
        lambda case: case == "window", "<= 1.25"),
    Row("sums", "10 million rows added up from files, to be compared with the source", "60 CPU seconds, ours by that",
        lambda case: case == "files", "<= 1"),
    Row("verification", "1,000 tables with 10 million rows compared with their MariaDB, beyond the server's own statements",
        "60 s, our time by that", lambda case: case == "verify", "<= 1"),
    Row("snapshot", "1.5 million changes of one table into its snapshot, warm", "4 CPU seconds, ours by that",
        lambda case: case == "many-seconds", "<= 1"),
    Row("snapshot", "the same", "a plain Spark job (a window over each key, MERGE), its CPU seconds by ours",
        lambda case: case == "many", "-"),
    Row("snapshot", "10,000 changes with random keys of a table of 1 million rows",
        "Iceberg's MERGE in Spark, both kinds, its CPU seconds by ours", lambda case: case.endswith(("-cow", "-mor")), ">= 1"),
    Row("snapshot", "the same", "writing the table anew in Spark, its CPU seconds by ours",
        lambda case: case.endswith("-rewrite"), ">= 5"),
    Row("snapshot", "the same of 10 million rows, bigint keys", "of 1 million, our CPU seconds by that",
        lambda case: case == "grown", "<= 1.5"),
    Row("snapshot", "the same of 10 million rows, UUIDs as text", "of 1 million, our CPU seconds by that",
        lambda case: case == "grown-uuid", "<= 3"),
    Row("snapshot", "the same changes into a history", "into the snapshot, our CPU seconds by that",
        lambda case: case.startswith("history"), "<= 2"),
    Row("many_windows", "100 windows of 10,000 changes on 1 million rows, the last twenty",
        "the first twenty, our CPU seconds by that", lambda case: case == "last", "<= 1.2"),
    Row("many_windows", "bytes that such a window writes, upkeep included", "10 MB", lambda case: case == "written", "<= 1"),
    Row("many_windows", "reading the table in Spark behind five refreshes", "a table written anew, its CPU seconds by that",
        lambda case: case == "read-between", "<= 1.6"),
    Row("many_windows", "the same behind the upkeep of a window's close", "the same",
        lambda case: case == "read-closed", "<= 1.15"),
    Row("many_tables", "a window in which 20 of 1,000 tables changed, changelogs and snapshots",
        "the same window with these 20 tables alone, our CPU seconds by that", lambda _: True, "<= 1.1"),
    Row("thousand_tables", "100 MB over 100 of 1,000 tables, raw to snapshots, two cores", "40 s, our time by that",
        lambda case: case == "some", "<= 1"),
    Row("thousand_tables", "the same over all 1,000 tables", "150 s, our time by that", lambda case: case == "all", "<= 1"),
    Row("thousand_tables", "both, the cost of many tables", "as many bytes of one table, our CPU seconds by that",
        lambda case: case.endswith("bytes"), "-"),
    Row("moments", "as of a transaction between two versions that differ in 1 % of 10 million rows: found, made and read",
        "reading the version before with the same reader, our CPU seconds by that", lambda case: case == "between", "<= 2"),
    Row("moments", "the same, both read by pyiceberg", "the same", lambda case: case == "pyiceberg", "-"),
    Row("moments", "finding the transaction and saying what it costs", "a second, our CPU seconds by that",
        lambda case: case == "plan", "<= 1"),
    Row("moments", "made where only the version behind the transaction is left",
        "made from its whole changelog, our CPU seconds by that", lambda case: case == "back", "-"),
    Row("flink", "1.5 million changes in DRS JSON-C, one row a message, to a table; a fresh process",
        "Flink 2.0, canal-json, Iceberg upserts, one such table: its CPU seconds by ours", lambda case: case == "1r", ">= 0.8"),
    Row("flink", "the same, 20 rows a message", "the same", lambda case: case == "20r", ">= 1"),
    Row("definitions", "loading 1,000 tables with changelog and snapshot",
        "as many bare asset specs with equal keys, groups and partitions, our CPU seconds by that",
        lambda case: case == "tables-1000", "<= 1.5"),
    Row("definitions", "loading 10,000 such tables", "the same", lambda case: case == "tables-10000", "<= 2"),
    Row("definitions", "loading either and describing it to the web server, with all columns", "the same",
        lambda case: case.endswith("described"), "-"),
    Row("startup", "one window of the example from nothing", "starting Spark and one empty job, its time by ours",
        lambda case: case.startswith("cold"), "-"),
)  # fmt: skip
NAMES = tuple(dict.fromkeys(row.benchmark for row in TABLE))


def run(name: str) -> Mapping[str, Any]:
    """Run a benchmark, show its output, and return its last line.

    Raises:
        SystemExit: The benchmark failed; the code is the benchmark's.
    """
    last = ""
    with subprocess.Popen([sys.executable, "-m", f"benchmarks.{name}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if last:
                print(last, end="", flush=True)
            last = line
    if process.returncode:
        print(last, end="")
        raise SystemExit(process.returncode)
    found: Mapping[str, Any] = json.loads(last)
    return found


def table(found: Mapping[str, Ratios], before: str = "") -> list[str]:
    """Return the table as lines of Markdown; of several cases the worst and the best ratio.

    Lines of benchmarks that were not run are taken from the text ``before``, if it has them.
    """
    lines = ["| what | against | ratio | promised |", "| --- | --- | --- | --- |"]
    for row in TABLE:
        beginning = f"| {row.what} (`{row.benchmark}`) | {row.against} |"
        ratios = [ratio for case, ratio in found.get(row.benchmark, {}).items() if row.cases(case)]
        if ratios:
            missed = "" if all(keeps(row.promised, ratio) for ratio in ratios) else " ✗"
            lines.append(f"{beginning} {_range(ratios)}{missed} | {row.promised} |")
        else:
            lines += [line for line in before.splitlines() if line.startswith(beginning)]
    return lines


def keeps(promised: str, ratio: float) -> bool:
    """Return whether a ratio keeps a promise such as ``>= 0.7``; a line without a promise has ``-``."""
    comparison, _, limit = promised.partition(" ")
    return {">=": ratio >= float(limit or 0), "<=": ratio <= float(limit or 0), "-": True}[comparison]


def machine() -> str:
    """Describe the machine and its load in one line."""
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    today = datetime.now(UTC).date().isoformat()
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {today}, load at the end {load}."


def with_table(text: str, lines: Iterable[str]) -> str:
    """Return a document whose table between the two ``figures`` comments is replaced.

    Raises:
        SystemExit: The document has no such comments.
    """
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"the document has no place for the table: {_BEGIN} and {_END} on lines of their own")
    return "\n".join([f"{before}{_BEGIN}", *lines, f"{_END}{after}"])


def _range(ratios: Sequence[float]) -> str:
    low, high = f"{min(ratios):.3g}", f"{max(ratios):.3g}"
    return f"{low}x" if low == high else f"{low}x to {high}x"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--readme", type=Path, help="a document to put the table into")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    found = {}
    for name in chosen.names or NAMES:
        found[name] = run(name)["ratios"]
        print(flush=True)
    before = chosen.readme.read_text() if chosen.readme else ""
    lines = [*table(found, before), "", machine()]
    print("\n".join(lines))
    if chosen.readme:
        chosen.readme.write_text(with_table(before, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
