"""A copy of a table from a running MariaDB, by its rows read with one driver into Parquet.

``python -m benchmarks.copies`` prints a line for each turn and, as its last line, one JSON object. The server runs on this
machine, so its work is in both. Both ways read the table in the same ranges with two connections, by Spark's JDBC reader.

- ``bootstrap``: the seconds of ``SELECT *`` written as Parquet by Spark, by those of a copy, which ends committed and noted.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.command import Options, finish, load, say
from benchmarks.workbench import Recording, Workbench, workbench
from dts_assets.flows.copies import Copying
from dts_assets.flows.copying import copy_tables
from dts_assets.flows.database_copies import server_of
from dts_assets.flows.jdbc_rows import add_driver
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.copied_tables import CopyKind
from dts_assets.model.tables import TableId
from dts_assets.settings.bootstrap import Bootstrap
from dts_emulator.machine.ports import free_port
from dts_emulator.source.server import Server, private_server

_USER, _PASSWORD = "copier", "benchmarks"
_TABLE = """CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT UNSIGNED NOT NULL, status VARCHAR(20),
    amount DECIMAL(12,2), placed DATETIME(3), changed TIMESTAMP NULL, note VARCHAR(200), weight DOUBLE, paid TINYINT(1),
    code CHAR(8))"""
_ROWS = """INSERT INTO shop.orders SELECT seq, seq % 100000, ELT(1 + seq % 4, 'new', 'paid', 'sent', 'returned'), seq / 7,
    '2026-01-01' + INTERVAL seq % 1000000 SECOND, '2026-01-02 03:04:05', IF(seq % 3, CONCAT('note ', seq), NULL), seq / 3,
    seq % 2, LPAD(seq % 1000000, 8, '0') FROM seq_1_to_{rows}"""


def fill(server: Server, rows: int) -> None:
    """Make the table and a user that may read it."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER {_USER}@'127.0.0.1' IDENTIFIED BY '{_PASSWORD}'")
        cursor.execute(f"GRANT SELECT, BINLOG MONITOR ON *.* TO {_USER}@'127.0.0.1'")
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("USE shop")
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(_TABLE)
        cursor.execute(_ROWS.format(rows=rows))
        cursor.execute("ANALYZE TABLE shop.orders")


def select(bench: Workbench, bootstrap: Bootstrap, ranges: Sequence[str], folder: Path) -> float:
    """Return the seconds of the rows as Spark's JDBC reader types them, into Parquet."""
    jdbc = bootstrap.source.jdbc
    assert jdbc is not None, "the benchmark's own configuration"
    add_driver(bench.spark, jdbc)
    began = time.monotonic()
    properties = {"driver": "org.mariadb.jdbc.Driver", "user": _USER, "password": _PASSWORD, "fetchsize": "10000"}
    url = f"jdbc:mysql://{jdbc.place}/shop?permitMysqlScheme=true"
    frame = bench.spark.read.jdbc(url, "orders", predicates=list(ranges), properties=properties)
    frame.write.mode("overwrite").option("compression", "zstd").parquet(str(folder))
    return time.monotonic() - began


def copy(bench: Workbench, pipeline: Pipeline, bootstrap: Bootstrap) -> tuple[float, int]:
    """Return the seconds of a copy, from the question for its ranges to the ledger, and its rows."""
    began = time.monotonic()
    work = Copying(pipeline, bootstrap, lambda: bench.spark, lambda _: None, server_is_right=True)
    report = copy_tables(work, CopyKind.RESYNC, [TableId("shop", "", "orders")])
    took = time.monotonic() - began
    (copied,) = report.copied
    return took, copied.rows


def main(arguments: Sequence[str]) -> None:
    """Measure both."""
    options = Options("copies", __doc__)
    options.add_argument("--rows", type=int, default=10_000_000, help="rows of the table")
    options.add_argument("--chunk-rows", type=int, default=500_000, help="rows of a range")
    options.add_turns(2)
    chosen = options.parse_args(arguments)
    best = {"select": float("inf"), "copy": float("inf")}
    port, rows = free_port(), 0
    network = ("--skip-networking=0", f"--port={port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=2G")
    with workbench() as bench, private_server(extra=network) as server:
        fill(server, chosen.rows)
        place = {"url": f"jdbc:mariadb://127.0.0.1:{port}/", "user": _USER, "password": _PASSWORD}
        bootstrap = Bootstrap.model_validate({"from": {"jdbc": place}, "chunk_rows": chosen.chunk_rows})
        (bench.folder / "capture").mkdir()
        recording = Recording(bench.folder / "capture", 1, 1, 0)
        with server_of(bootstrap).connected() as asked:
            table = asked.table(TableId("shop", "", "orders"))
            bounds = [None, *asked.key_bounds(table, rows=chosen.chunk_rows), None]
        ranges = [
            " AND ".join(filter(None, [low and f"id > {low}", high and f"id <= {high}"])) or "1 = 1"
            for low, high in pairwise(bounds)
        ]
        for turn in range(chosen.turns):
            best["select"] = min(best["select"], select(bench, bootstrap, ranges, bench.folder / "parquet"))
            pipeline = bench.pipeline(f"copies_{turn}", recording)
            took, rows = copy(bench, pipeline, bootstrap)
            best["copy"] = min(best["copy"], took)
            shutil.rmtree(bench.folder / "parquet")
            say(
                f"turn {turn + 1}: SELECT into Parquet {best['select']:.1f} s, copy {best['copy']:.1f} s, {rows:,} rows"
            )
    assert rows == chosen.rows, "a copy has all rows"
    ratios = {"bootstrap": round(best["select"] / best["copy"], 2)}
    finish("copies", ratios, {"seconds": best, "rows": rows, "load": load()})


if __name__ == "__main__":
    main(sys.argv[1:])
