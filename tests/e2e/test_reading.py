"""The page about reading: each of its examples, run on a SQLite and on a REST catalog, and what types become."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from dts_assets.flows.snapshot_merges import STATE_PROPERTY
from dts_assets.flows.this_process import this_process
from dts_assets.planning.snapshot_plans import SnapshotState
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.jars import ICEBERG_RUNTIME, SQLITE_JDBC
from dts_emulator.machine.rest_lake import can_start, private_rest_catalog
from tests.flows.harness import Bench

HOUSE = Path(__file__).resolve().parents[2]
PAGE = HOUSE / "docs" / "reading.md"
_BLOCK = re.compile(r"^## (?P<title>[^\n]+)$|^```python(?P<words>[^\n]*)\n(?P<code>.*?)^```$", re.M | re.S)
TYPES = pa.schema(
    {
        "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
        "decimal(10,2)": pa.decimal128(10, 2), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
)  # fmt: skip


_AT = datetime(2026, 1, 5)
_VALUES: Mapping[str, Any] = {
    "boolean": True, "int": 1, "bigint": 1, "float": 1.0, "double": 1.0, "decimal(10,2)": Decimal(1), "string": "a",
    "binary": b"a", "date": date(2026, 1, 5), "timestamp": _AT, "timestamp_ntz": _AT, "map<string,string>": [("a", "b")],
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A piece of code of the page."""

    title: str
    words: frozenset[str]
    code: str


def blocks() -> list[Block]:
    found, title = [], ""
    for match in _BLOCK.finditer(PAGE.read_text("utf-8")):
        if match["title"]:
            title = match["title"]
        else:
            found.append(Block(title, frozenset(match["words"].split()), match["code"]))
    return found


@pytest.fixture(autouse=True)
def _polars_plans_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


READERS = [one for one in blocks() if not one.words]


def _filled(bench: Bench) -> None:
    harness = bench.open(
        HOUSE / "examples" / "shop", name="shop", partitions=4, tables={"include": ["shopdb.orders", "shopdb.customers"]},
        window={"every": "1h", "start": "2026-01-05T00:00Z", "end": "2026-01-05T08:00Z"},
    )  # fmt: skip
    for number in range(8):  # each window has a version of its own
        harness.all(number)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The places of the page, and those of a lake with a SQLite catalog."""
    folder = tmp_path_factory.mktemp("lake")
    _filled(Bench(this_process(), LakeLocation(str(folder)), folder, "shop"))
    return {"/data/lake": str(folder)}


@pytest.fixture(scope="module")
def by_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    if not can_start():  # 146 MB, which only tests of REST catalogs need
        subprocess.run([sys.executable, "scripts/fetch_broker.py", "rest"], check=True)
    folder = tmp_path_factory.mktemp("lake")
    with private_rest_catalog(folder) as properties:
        _filled(Bench(this_process(), LakeLocation(str(folder), dict(properties)), folder, "shop"))
        yield {"https://catalog.example": properties["uri"]}


def _code(kind: str, places: Mapping[str, str], *wanted: Block) -> str:
    """The code that opens a catalog, then that of blocks, with places of this machine."""
    (opened,) = (one for one in blocks() if one.words == {kind})
    code = "\n".join(one.code for one in (opened, *wanted))
    for ours, theirs in places.items():
        code = code.replace(ours, theirs)
    return code


def _read(code: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(code, found)
    return found


def _wanted(code: str, *, hour: int | None = None) -> list[tuple[int, Any]]:
    """The present rows, or those behind the window of an hour, by the state that versions carry."""
    catalog = _read(code)["catalog"]
    orders, version = catalog.load_table("shop.snapshot.shopdb.orders"), None
    for one in orders.snapshots() if hour is not None else ():
        state = SnapshotState.of_text(one.summary.additional_properties[STATE_PROPERTY])
        window = state.frontier.window
        version = one.snapshot_id if hour is not None and window and window.hour <= hour else version
    rows = orders.scan(snapshot_id=version).to_arrow().to_pylist()
    wanted = sorted((row["id"], row["total"]) for row in rows if row["total"] is not None and row["total"] >= 100)
    assert 0 < len(wanted) < len(rows)
    return wanted


def _pairs(found: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """The pairs of id and total, in whatever form a reader gives them."""
    rows = found.get("frame", found.get("rows"))
    if hasattr(rows, "rows"):
        return sorted(rows.rows())
    if hasattr(rows, "itertuples"):
        return sorted(rows.itertuples(index=False, name=None))
    if isinstance(rows, pa.Table):
        return sorted(zip(*rows.to_pydict().values(), strict=True))
    return sorted(map(tuple, rows))


def _check(block: Block, kind: str, places: Mapping[str, str]) -> None:
    found = _read(_code(kind, places, block))
    if block.title == "What `cut` means":
        assert found["last"]["window_start"].hour == 7
        assert found["last"]["completeness"] == "proven"
        assert not found["last"]["paused"]
    else:
        hour = 3 if block.title == "A closed cut" else None
        assert _pairs(found) == _wanted(_code(kind, places), hour=hour)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("block", READERS, ids=lambda block: block.title)
def test_an_example_reads_a_lake_on_a_disk(block: Block, on_disk: Mapping[str, str]) -> None:
    _check(block, "sqlite", on_disk)


@pytest.mark.long
@pytest.mark.parametrize("block", READERS, ids=lambda block: block.title)
def test_an_example_reads_a_rest_catalog(block: Block, by_rest: Mapping[str, str]) -> None:
    _check(block, "rest", by_rest)


def _in_a_process(python: str, code: str) -> list[tuple[int, str]]:
    """Return the rows of an example, whose numbers are texts, in a process of its own."""
    shown = "\nfor row in rows:\n    print('row', *(row.values() if isinstance(row, dict) else row))\n"
    done = subprocess.run([python, "-c", code + shown], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (line.split() for line in done.stdout.splitlines() if line.startswith("row "))
    return sorted((int(number), total) for _, number, total in lines)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["sqlite", "rest"])
def test_spark_reads_a_lake_without_this_package(kind: str, request: pytest.FixtureRequest) -> None:
    places = request.getfixturevalue({"sqlite": "on_disk", "rest": "by_rest"}[kind])
    (block,) = (one for one in blocks() if one.words == {kind, "spark"})
    found = _in_a_process(sys.executable, _code(kind, places, block))
    assert found == [(number, str(total)) for number, total in _wanted(_code(kind, places))]
    (tag,) = (one for one in blocks() if one.words == {"tag", "spark"})
    then = _in_a_process(sys.executable, _code(kind, places, block, tag))
    assert then == [(number, str(total)) for number, total in _wanted(_code(kind, places), hour=3)]
    assert then != found


@pytest.mark.long
def test_daft_reads_a_lake_from_an_environment_of_its_own(on_disk: Mapping[str, str], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "daft==0.7.26", "pyiceberg[sql-sqlite]"], check=True)
    (block,) = (one for one in blocks() if "daft" in one.words)
    found = _in_a_process(python, _code("sqlite", on_disk, block))
    assert found == [(number, str(total)) for number, total in _wanted(_code("sqlite", on_disk))]


def test_the_page_names_the_packages_that_this_version_uses() -> None:
    text = PAGE.read_text("utf-8")
    assert f'"{ICEBERG_RUNTIME},{SQLITE_JDBC}"' in text
    assert set(re.findall(r"org\.apache\.iceberg:[^\",]+", text)) == {ICEBERG_RUNTIME}


def test_every_block_of_the_page_is_run() -> None:
    assert [(one.title, *sorted(one.words)) for one in blocks() if one.words] == [
        ("The catalog", "sqlite"), ("The catalog", "rest"), ("Spark SQL", "spark", "sqlite"), ("Spark SQL", "rest", "spark"),
        ("A closed cut", "spark", "tag"), ("Daft", "daft"),
    ]  # fmt: skip
    assert len(READERS) == 6


def test_types_become_what_the_page_says(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("types")
    table = catalog.create_table("types.all", TYPES)
    table.append(pa.Table.from_arrays([pa.array([_VALUES[one.name]], one.type) for one in TYPES], schema=TYPES))
    arrow = table.scan().to_arrow()
    pandas, lazy = table.scan().to_pandas(), polars.scan_iceberg(table).collect_schema()
    connection = table.scan().to_duckdb("t")
    duckdb = {name: kind for name, kind, *_ in connection.sql("DESCRIBE t").fetchall()}
    from pyspark.sql.pandas.types import from_arrow_schema

    spark = {one.name: one.dataType.simpleString() for one in from_arrow_schema(TYPES, prefer_timestamp_ntz=True)}
    lines = [
        f"| `{name}` | `{arrow.schema.field(name).type}` | `{pandas.dtypes[name]}` | `{lazy[name]}` | `{duckdb[name]}` "
        f"| `{spark[name]}` |"
        for name in TYPES.names
    ]
    shown = PAGE.read_text("utf-8")
    assert all(line in shown.splitlines() for line in lines), "docs/reading.md lacks lines:\n" + textwrap.indent(
        "\n".join(lines), ""
    )
