"""Columns that changes lack: in snapshots, an absent column follows its row to another key.

DataFrames go in and come out, as in ``stages/snapshot_in_spark.py``, whose operations on keys are read here.

The operations on one key, in their order, are the lives of one row after the other. A row's life at a key *begins* with an
insert, with the arrival of a row that moved, or with the first operation behind its predecessor's end, and it ends where the
row leaves the key. A move that sends every column needs nothing from before. A move that lacks columns goes on with the row
that left: the lives of that row at two keys are one.

Few rows move so. What tells which lives are one is only about these moves, and is done for all of them at once in Arrow
(``stages/moved_rows.py``), however often a row moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dts_assets.model.columns import Column
from dts_assets.stages.change_columns import SHOWN
from dts_assets.stages.moved_rows import connected

_Numbers: TypeAlias = npt.NDArray[np.int64]

MOVE = "array<bigint>"
"""The type of the numbers that tell a move from all others, as many of each."""


def folded(operations: DataFrame, columns: Sequence[Column], *, follow_moves: bool = False) -> DataFrame:
    """Return the last operation on every key where changes lack columns.

    As ``latest`` of ``stages/snapshot_in_spark.py``, but each column's value is the one of the row's last operation that
    carries it. Costs one aggregate per column, so it is used only where the ledger knows of absent columns.

    ``follow_moves`` says that some of these operations move rows to other keys.
    """
    piece = Window.partitionBy("key", "at", "kafka_partition")
    in_piece = F.max_by("takes", F.struct("row_number", "takes")).over(piece)
    order = F.struct("at", "piece_takes", "kafka_partition", "row_number", "takes")
    ordered = operations.withColumn("piece_takes", in_piece).withColumn("order", order)
    return _by_row(ordered, columns) if follow_moves else _by_key(ordered, columns)


def linked_keys(keys: DataFrame, moves: DataFrame) -> DataFrame:
    """Return ``keys`` and all keys that moves which lack columns link to them.

    ``moves`` has the keys ``left`` and ``taken``; links go on from key to key, in both directions. The result may hold more:
    keys are told apart by a hash on the way.
    """
    pairs = moves.select(F.xxhash64("left").alias("one"), F.xxhash64("taken").alias("other")).distinct()
    groups = pairs.groupBy(F.lit(True)).applyInArrow(connected, "member bigint, linked bigint")
    moved = moves.select(F.explode(F.array("left", "taken")).alias("key")).distinct()
    moved = moved.withColumn("member", F.xxhash64("key")).join(groups, on="member")
    touched = moved.join(keys, on="key", how="left_semi").select("linked").distinct()
    return keys.unionByName(moved.join(touched, on="linked", how="left_semi").select("key")).distinct()


def first_moves(moves: pa.Table) -> pa.Table:
    """Return the ``first`` move of the row of each ``move``.

    A row ``came`` to the place of a move by the move before it.
    """
    codes, events = _coded(moves["move"], moves["came"])
    before = np.arange(len(events))
    before[codes[0]] = codes[1]
    for _ in range(len(events).bit_length()):  # each step doubles the moves that are gone back
        before = before[before]
    return pa.table({"move": events.take(pa.array(codes[0])), "first": events.take(pa.array(before[codes[0]]))})


def is_absent(column: Column, image: str = "after") -> SparkColumn:
    """Return whether a column of an image was not sent."""
    told = [F.coalesce(F.array_contains("absent", f"{image}.{name}"), F.lit(False)) for name in column.lake_names]
    return reduce(or_, told)


def some(texts: Sequence[SparkColumn]) -> SparkColumn:
    """Return the texts as an array, null where all are null.

    So the keys of values that fit have one form, and are equal if the values are.
    """
    return F.when(F.coalesce(*texts).isNotNull(), F.array(*texts))


def _by_key(operations: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Fold operations of rows that stay: a row is what stands at its key."""
    begun_at = F.max(F.when(~F.col("takes") | F.col("begins"), F.col("order"))).over(Window.partitionBy("key"))
    counts = F.col("takes") & (F.col("begun_at").isNull() | (F.col("order") >= F.col("begun_at")))
    alive = operations.withColumn("begun_at", begun_at).withColumn("alive", counts)
    rows = alive.groupBy("key").agg(*_values(columns, F.col("alive"), F.col("order")), F.max("alive").alias("takes"))
    return _shown(rows, columns)


def _by_row(operations: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Fold operations by their row, and give each row the key where it stood last."""
    lives = _lives(operations)
    counts = lives.where(F.col("takes") | F.col("is_last"))
    # Other lives find no move, and are spread by their keys: a join would bring all nulls to one task.
    arrived = F.col("takes") & F.col("life.move").isNotNull()
    sought = F.when(arrived, F.col("life.move")).otherwise(F.array(F.xxhash64("key")))
    rows = counts.drop("move").withColumn("move", sought).join(_moves(lives), on="move", how="left")
    here = F.struct("key", F.when(F.col("takes"), F.col("life.begun_at")).otherwise(F.col("order")).alias("begun_at"))
    unseen = F.when(arrived & F.col("origin").isNull(), F.coalesce("first", "move"))
    rows = rows.withColumns({"first_life": F.when(arrived, F.col("origin")).otherwise(here), "unseen": unseen})
    order = F.struct("at", "row_number", "takes")
    stands = F.max_by("key", F.when(F.col("is_last"), order)).alias("key")
    ends = [F.max("is_last").alias("ends"), F.max(F.col("is_last") & F.col("takes")).alias("takes")]
    found = rows.groupBy("first_life", "unseen").agg(*_values(columns, F.col("takes"), order), stands, *ends)
    return _shown(found.where("ends"), columns)


def _lives(operations: DataFrame) -> DataFrame:
    """Say of every operation which life of a row it belongs to.

    ``life`` says with which operation on its key it began (``begun_at``), and the ``move`` by which its row arrived without all
    columns, if it did; it is null where a row leaves unseen. ``is_last`` marks the last operation on a key.
    """
    lasting = Window.partitionBy("key").orderBy("order")
    lived = F.coalesce(F.lag("takes").over(lasting), F.lit(False))
    told = operations.withColumns({"lived": lived, "is_last": F.lead("takes").over(lasting).isNull()})
    begins = F.col("takes") & (F.col("begins") | F.col("move").isNotNull() | ~F.col("lived"))
    life = F.when(begins, F.struct(F.col("order").alias("begun_at"), "move"))
    so_far = lasting.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    since = told.withColumn("life", F.last(life, ignorenulls=True).over(so_far))
    return since.withColumn("life", F.when(F.col("takes") | F.col("lived"), F.col("life")))


def _moves(lives: DataFrame) -> DataFrame:
    """Return for every move that lacks columns the ``first`` such move of its row, and that one's ``origin``.

    The origin is the life of the row before it moved, null where the row was never seen there.
    """
    left = lives.where(~F.col("takes") & F.col("move").isNotNull() & F.col("life").isNotNull())
    origin = F.struct("key", F.col("life.begun_at").alias("begun_at")).alias("origin")
    moves = left.select("move", F.col("life.move").alias("came"), origin).dropDuplicates(["move"])
    again = moves.where(F.col("came").isNotNull()).select("move", "came")
    firsts = again.groupBy(F.lit(True)).applyInArrow(first_moves, f"move {MOVE}, first {MOVE}")
    known = moves.select("move").join(firsts, on="move", how="left").withColumn("first", F.coalesce("first", "move"))
    return known.join(moves.select(F.col("move").alias("first"), "origin"), on="first", how="left")


def _values(columns: Sequence[Column], counts: SparkColumn, order: SparkColumn) -> list[SparkColumn]:
    """Return the aggregates of a row: the last value of each column, and what the snapshot shows.

    Only operations that ``counts`` holds of are looked at.
    """
    values = [
        F.max_by(
            F.struct(F.col("row")[column.name].alias("value"), F.col("unfit")[number].alias("unfit")),
            F.when(counts & ~is_absent(column), order),
        ).alias(f"value_{number}")
        for number, column in enumerate(columns)
    ]
    return [*values, F.max_by(F.struct(*SHOWN), F.when(counts, order)).alias("shown")]


def _shown(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Give the aggregates of rows the columns of operations."""
    row = F.struct(*[F.col(f"value_{number}.value").alias(column.name) for number, column in enumerate(columns)])
    unfit = some([F.col(f"value_{number}.unfit") for number in range(len(columns))])
    return rows.select(
        "key",
        "takes",
        F.when(F.col("takes"), row).alias("row"),
        F.when(F.col("takes"), unfit).alias("unfit"),
        F.array().cast("array<string>").alias("absent"),
        "shown.*",
    )


def _coded(*columns: pa.ChunkedArray) -> tuple[list[_Numbers], pa.Array]:
    """Return columns of equally long lists of numbers as codes, and the list that each code stands for."""
    whole = pa.concat_arrays([chunk for column in columns for chunk in column.chunks])
    lists = whole.flatten().to_numpy().reshape(len(whole), -1)
    _, first, codes = np.unique(lists, axis=0, return_index=True, return_inverse=True)
    return np.split(codes.reshape(-1), len(columns)), whole.take(pa.array(first))
