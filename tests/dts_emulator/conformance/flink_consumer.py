"""Apache Flink's format ``canal-json`` as a consumer of the suite.

``python -m tests.dts_emulator.conformance.flink_consumer SUITE RESULTS`` writes and judges its rows. Flink's jars come by
``scripts/fetch_broker.py flink``. A column has the type of Flink's SQL that its manual names for the type of MySQL, and text
where no type holds all values. The rows in the end are those of the changelog that Flink makes of all messages, in the order of
Kafka partitions and offsets; they are kept by key. It reads the messages of Canal, and those of DRS in JSON, which look alike.
"""

from __future__ import annotations

import json
import sys
import tempfile
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from dts_emulator.conformance.judge import Verdict, judge
from dts_emulator.conformance.reading import MESSAGES, ReadCase, read_suite
from dts_emulator.machine.flink import private_flink, run_statement
from tests.dts_emulator.conformance.plain_consumers import has_rows

FORMATS = ("canal-json", "drs-json", "drs-json-c")

_TYPES: Mapping[str, str] = {
    "tinyint": "TINYINT", "int": "INT", "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "date": "DATE",
    "datetime": "TIMESTAMP(6)", "timestamp": "TIMESTAMP(6)", "year": "INT",
}  # fmt: skip


def flink_type(source_type: str) -> str:
    """Return the type of a column: decimals of more than 38 digits, TIME beyond a day and BIT are text."""
    base, _, arguments = source_type.lower().partition("(")
    if "unsigned" in source_type:
        return {"int": "BIGINT", "bigint": "DECIMAL(20, 0)"}.get(base.split()[0], "STRING")
    if base == "decimal":
        precision, scale = (int(one) for one in arguments.rstrip(")").split(","))
        return f"DECIMAL({precision}, {scale})" if precision <= 38 else "STRING"
    return _TYPES.get(base.split()[0], "STRING")


def consume(tables: Any, case: ReadCase, results: Path) -> None:
    """Write the rows of the tables of a case, as Flink's changelog has them in the end.

    Raises:
        EmulatorError: Flink refused the table.
        Py4JJavaError: Flink's job failed.
    """
    folder = results / case.format / case.name / "rows"
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as made:
        lines = (json.loads(line) for line in (case.folder / MESSAGES).read_text("utf-8").split("\n") if line)
        (Path(made) / "lines").write_bytes(b"\n".join(b64decode(one["value"]) for one in lines))
        for table in case.described["tables"]:
            run_statement(tables, "DROP TABLE IF EXISTS `read`")
            run_statement(tables, _declared(table, Path(made) / "lines"))
            rows = _rows(tables.executeSql("SELECT * FROM `read`").collect(), case, table)
            (folder / table["file"]).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def _declared(table: Mapping[str, Any], file: Path) -> str:
    columns = ", ".join(f"{_quoted(one['name'])} {flink_type(one['type'])}" for one in table["columns"])
    return (
        f"CREATE TABLE `read` ({columns}) WITH ('connector' = 'filesystem', 'path' = '{file.as_uri()}', 'format' = 'canal-json', "
        f"'canal-json.database.include' = {_pattern(table['database'])}, 'canal-json.table.include' = {_pattern(table['table'])})"
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _pattern(name: str) -> str:
    escaped = "".join(one if one.isalnum() or ord(one) > 127 else f"\\{one}" for one in name)
    return "'" + escaped.replace("'", "''") + "'"


def _rows(changes: Any, case: ReadCase, table: Mapping[str, Any]) -> Iterable[Mapping[str, str | None]]:
    """The rows that a changelog leaves. An old row leaves its key, a new one takes it; without a key rows are counted."""
    by_key: dict[tuple[str | None, ...], dict[str, str | None]] = {}
    counts: Counter[tuple[tuple[str, str | None], ...]] = Counter()
    while changes.hasNext():
        row = changes.next()
        texts = {
            one["name"]: _text(row.getField(place), one["kind"], case) for place, one in enumerate(table["columns"])
        }
        key = tuple(texts[name] for name in table["key"])
        is_new = row.getKind().shortString() in ("+I", "+U")
        if not key:
            counts[tuple(texts.items())] += 1 if is_new else -1
        elif is_new:
            by_key[key] = texts
        else:
            by_key.pop(key, None)
    return [*by_key.values(), *map(dict, (+counts).elements())]


def _text(value: Any, kind: str, case: ReadCase) -> str | None:
    """A value as the suite writes it: bytes of Canal are text in ISO-8859-1, an instant is a clock of the source's zone."""
    if value is None:
        return None
    text = str(value.toString() if hasattr(value, "toString") else value)
    if kind == "bytes" and case.format == "canal-json":
        return text.encode("iso-8859-1").hex()
    if kind in ("datetime", "instant"):
        text = f"{text}:00" if text.count(":") == 1 else text  # Java leaves out seconds that are zero
        return f"{text}{case.described['source_time_zone']}" if kind == "instant" else text
    return text


def run(suite: Path, results: Path) -> tuple[Verdict, ...]:
    """Consume all cases of formats that Flink can read, and judge them."""
    cases = [case for case in read_suite(suite) if case.format in FORMATS and has_rows(case)]
    with private_flink() as tables:
        for case in cases:
            try:
                consume(tables, case, results)
            except Py4JJavaError as error:
                sys.stderr.write(f"{case.label}: {_cause(error.java_exception)}\n")
    return judge(cases, results)


def _cause(error: Any) -> str:
    while error.getCause() is not None:
        error = error.getCause()
    return str(error.toString()).splitlines()[0][:150]


if __name__ == "__main__":
    for verdict in run(Path(sys.argv[1]), Path(sys.argv[2])):
        sys.stdout.write(f"{verdict.case.label} {verdict.outcome} {'; '.join(verdict.differences)}\n")
