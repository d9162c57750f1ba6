"""Chunks of a table read from a database by Spark's JDBC reader.

The tasks that read them write them to the lake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from dts_assets.errors.sources import DatabaseError
from dts_assets.flows.spark_tasks import run_partitions
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk
from dts_assets.model.positions import SourcePosition
from dts_assets.settings.databases import Jdbc
from dts_assets.sources.mysql_server import BinlogPlace, SourceTable, sql_table, sql_value
from dts_assets.stages.copied_rules import CopyRules
from dts_assets.stages.copied_texts import copy_query, row_fields
from dts_assets.store.files import TableWriter, WriteTarget, WrittenFile
from dts_assets.store.machine import require_near

DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.5.6"
"""The driver that Spark reads MySQL and MariaDB with, by its Maven coordinates.

A session gets it when the first table is copied, so that nobody else waits for it.
"""

SOCKETS = "net.java.dev.jna:jna:5.17.0"
"""The package by which the driver reaches a server's socket on this machine, by its Maven coordinates."""

_CLASS = "org.mariadb.jdbc.Driver"
_FETCH = "10000"
"""Rows that the driver takes at once, so that it never holds a whole chunk."""

_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_IN_UTC = "SET time_zone = '+00:00'"


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """A chunk that was read, with its files, which are not committed yet."""

    chunk: CopiedChunk
    files: tuple[WrittenFile, ...]


def read_chunks(
    spark: SparkSession,
    jdbc: Jdbc,
    table: SourceTable,
    chunks: Sequence[CopiedChunk],
    target: WriteTarget,
    rules: CopyRules,
    *,
    copy: str,
    lineage: int,
    since: BinlogPlace,
    tells_position: bool,
) -> list[ReadChunk]:
    """Read chunks, one connection for each, and write their rows to ``target``.

    ``since`` is the end of the binlog before. A server that ``tells_position`` shows the exact place of the snapshot that each
    chunk is read from, which is its low and high watermark then; of others the high watermark is left open.

    Raises:
        DatabaseError: The driver cannot log in, or the server refuses the question.
    """
    query, names = copy_query(sql_table(table.table), table.columns, key=table.key, tells_position=tells_position)
    properties = {
        "driver": _CLASS,
        "user": jdbc.user,
        "password": jdbc.place.password,
        "fetchsize": _FETCH,
        "sessionInitStatement": _SNAPSHOT if tells_position else _IN_UTC,
    }
    predicates = [_predicate(table, chunk) for chunk in chunks]
    try:
        frame = spark.read.jdbc(_url(jdbc), query, predicates=predicates, properties=properties)
    except Exception as error:  # its text may quote values
        what = f"Spark's driver cannot read it ({_java_name(error)}); look at the account's rights, and at sslMode"
        raise DatabaseError(str(jdbc.place), what) from None
    low = SourcePosition(lineage, since.file, since.position)
    begun = tuple(replace(chunk, low=low) for chunk in chunks)
    work = _Work(target, copy, begun, table.columns, lineage, rules)
    wanted = frame.select(*names, *(("p",) if tells_position else ()))
    return run_partitions(wanted, work, partitions=len(begun))


def _java_name(error: Exception) -> str:
    """Return the name of Java's error behind one of Python's, else that of Python's own."""
    java = getattr(error, "java_exception", None)
    return type(error).__name__ if java is None else str(java.getClass().getSimpleName())


def add_driver(spark: SparkSession, jdbc: Jdbc) -> None:
    """Give a session the driver, and what that needs for a socket, unless its settings name them.

    It is given again for each copy: the JVM finds added classes only in threads that have added them.

    Raises:
        DatabaseError: The driver cannot be fetched, or tasks are on machines that have no such socket.
    """
    require_near(jdbc.place, spark.conf.get("spark.master", None) or "local")
    named = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    settings = [spark.conf.get(name, "") or "" for name in named]
    for package in (DRIVER, SOCKETS) if jdbc.place.socket else (DRIVER,):
        artifact = re.compile(rf"(?:^|[/:_,]){package.split(':')[1]}[-.:]")
        if any(map(artifact.search, settings)):
            continue
        try:
            spark.sql(f"ADD JAR ivy://{package}?transitive=false")
        except Exception as error:
            what = (
                f"Spark cannot fetch {package}, which its driver needs ({type(error).__name__}); where there is no network, "
                "name the jar under spark.conf as spark.jars"
            )
            raise DatabaseError(str(jdbc.place), what) from None


def _url(jdbc: Jdbc) -> str:
    """Return the address of a database for Spark and for the driver.

    By it Spark knows that names stand in backticks, and the driver that it may read it.

    Spark takes ``jdbc:mariadb`` for a database that quotes names with ``"``, which is a text there.
    """
    place = jdbc.place
    host = f"[{place.host}]" if ":" in place.host else place.host
    options = "&".join(filter(None, ["permitMysqlScheme=true", "connectionTimeZone=UTC", jdbc.options]))
    return f"jdbc:mysql://{host}:{place.port}/?{options}"


def _predicate(table: SourceTable, chunk: CopiedChunk) -> str:
    parts = []
    if table.key is not None:
        column = table.column(table.key)
        parts += [] if chunk.key_from is None else [f"k0 > {sql_value(chunk.key_from, column)}"]
        parts += [] if chunk.key_until is None else [f"k0 <= {sql_value(chunk.key_until, column)}"]
    return " AND ".join(parts) or "1 = 1"


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of the tasks that read chunks: partition for partition one chunk."""

    target: WriteTarget
    copy: str
    chunks: tuple[CopiedChunk, ...]
    columns: tuple[ColumnShape, ...]
    lineage: int
    rules: CopyRules

    def __call__(self, number: int, attempt: str, batches: Iterable[pa.RecordBatch]) -> ReadChunk:
        """Write the rows of the chunk of a partition."""
        chunk = self.chunks[number]
        return write_chunk(self.target, self.copy, chunk, self.columns, batches, attempt, self.lineage, self.rules)


def write_chunk(
    target: WriteTarget,
    copy: str,
    chunk: CopiedChunk,
    columns: Sequence[ColumnShape],
    batches: Iterable[pa.RecordBatch],
    attempt: str,
    lineage: int,
    rules: CopyRules,
) -> ReadChunk:
    """Write the rows of a chunk under the rules of their table, and return it with its files.

    ``batches`` have a column of texts or bytes for each of ``columns``, in their order, and behind them the place in the binlog
    where rows tell it: ``mysql-bin.000004,1187``.
    """
    read_at, count = datetime.now(UTC), 0
    with TableWriter(target, attempt) as writer:
        for batch in batches:
            if not batch.num_rows:
                continue
            if not count and batch.num_columns > len(columns):
                place = _place(batch.column(len(columns))[0].as_py(), lineage)
                chunk = replace(chunk, low=place, high=place)
            ruled = rules.applied(batch, columns)
            if ruled.num_rows:
                rows = stored_rows(target, copy, chunk, columns, ruled, read_at, count)
                writer.write_partition((copy, chunk.number), rows)
                count += ruled.num_rows
        return ReadChunk(replace(chunk, rows=count, read_at=read_at), writer.close())


def _place(text: str, lineage: int) -> SourcePosition:
    file, _, position = text.rpartition(",")
    place = BinlogPlace.of(file, position)
    return SourcePosition(lineage, place.file, place.position)


def stored_rows(
    target: WriteTarget,
    copy: str,
    chunk: CopiedChunk,
    columns: Sequence[ColumnShape],
    batch: pa.RecordBatch,
    read_at: datetime,
    before: int,
    *,
    removed: bool = False,
) -> pa.RecordBatch:
    """Return rows of a chunk as a copied table stores them.

    ``before`` is the number of rows that the chunk has before them.
    """
    count, low = batch.num_rows, chunk.low
    assert low is not None, "a chunk has a low watermark before it is read"
    position = pa.StructArray.from_arrays(
        [
            pa.array(np.full(count, low.lineage, np.int32)),
            pa.array(np.full(count, low.file, np.int64)),
            pa.array(np.full(count, low.position, np.int64)),
        ],
        names=["lineage", "file", "position"],
    )
    row = pa.StructArray.from_arrays(
        batch.columns[: len(columns)], names=row_fields(target.arrow_schema.field("row").type, columns)
    )
    return pa.RecordBatch.from_pydict(
        {
            "copy": pa.repeat(copy, count),
            "chunk": pa.array(np.full(count, chunk.number, np.int32)),
            "source_position": position,
            "read_at": pa.repeat(pa.scalar(read_at, pa.timestamp("us", tz="UTC")), count),
            "removed": pa.array(np.full(count, removed)),
            "row_number": pa.array(np.arange(before, before + count, dtype=np.int32)),
            "row": row,
        }
    )
