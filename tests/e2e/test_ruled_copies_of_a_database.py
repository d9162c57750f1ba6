"""A real database copied under rules while it is written to: no plain value comes into the lake, and rows are right."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dts_assets.flows.copies import cancel_copies
from dts_assets.flows.copying import copy_tables
from dts_assets.model.copied_tables import CopyKind, CopyState
from tests.e2e.busy_shop import DATABASE, EVERY, GOODS, START, Shop, busy_shop
from tests.e2e.copied_shops import copying
from tests.flows.harness import Bench, Harness
from tests.flows.plain_values import plain_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation

pytestmark = [pytest.mark.spark, pytest.mark.database, pytest.mark.more]

KEY = "a key that nobody guesses"
RULES: dict[str, Any] = {
    "columns": {
        f"{DATABASE}.goods.name": {"hash": {"key": KEY}},
        f"{DATABASE}.goods.note": {"tokenize": {"key": KEY, "pattern": "💰[0-9]+"}},
        f"{DATABASE}.goods.e": {"mask": "***"},
        f"{DATABASE}.goods.price": "drop",
        f"{DATABASE}.goods.b": {"hash": {"key": KEY}},
    },
    "rows": {f"{DATABASE}.goods": "y >= 2025"},
}


@pytest.fixture
def shop() -> Iterator[Shop]:
    with busy_shop() as running:
        yield running


@pytest.fixture
def bench(spark: SparkSession, spark_lake: LakeLocation, tmp_path: Path) -> Bench:
    return Bench(spark, spark_lake, tmp_path, f"ruled_{abs(hash(tmp_path)) % 10**9}")


def opened(bench: Bench, shop: Shop, folder: Path, **bootstrap: Any) -> Harness:
    (folder / "capture").mkdir(exist_ok=True)
    window = {"every": EVERY, "start": START, "end": None}
    return bench.open(
        folder / "capture", name=bench.prefix, partitions=2, window=window, complete=False,
        bootstrap={**shop.bootstrap, **bootstrap}, **RULES,
    )  # fmt: skip


def sealed(value: bytes) -> str:
    return hmac.digest(KEY.encode(), value, "sha256").hex()


def source_rows(shop: Shop) -> dict[int, tuple[Any, ...]]:
    with shop.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, name, note, e, b, y FROM goods WHERE y >= 2025")
        return {row[0]: row[1:] for row in cursor.fetchall()}


def lake_folder(harness: Harness) -> Path:
    return Path(harness.pipeline.lake.location.warehouse.removeprefix("file://")) / harness.pipeline.name


def test_a_copy_passes_the_rules_in_the_tasks_that_read_it(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    harness = opened(bench, shop, tmp_path, connections=2)
    with shop.written():
        report = copy_tables(copying(harness), CopyKind.BOOTSTRAP, [GOODS])
    assert not report.failed
    (copied,) = report.copied
    assert len(copied.chunks) > 3
    assert not copied.is_bounded
    assert plain_values(lake_folder(harness), ["näme", "💰", KEY]) == {}
    assert {row["row"]["price"] for row in harness.rows("copies", *GOODS.path)} == {None}
    windows = shop.record(tmp_path / "capture")
    for number in range(windows):
        harness.all(number)
    harness.settle()
    assert plain_values(lake_folder(harness), ["näme", "💰", KEY]) == {}
    expected = source_rows(shop)
    shown = {row["id"]: row for row in harness.rows("snapshot", *GOODS.path)}
    assert shown.keys() == expected.keys()
    assert expected
    for number, (name, _, label, content, _) in expected.items():
        row = shown[number]
        assert row["name"] == (None if name is None else sealed(name.encode()))
        assert row["b"] == (None if content is None else sealed(content))
        assert row["e"] == (None if label is None else "***")


def test_bounds_go_with_the_end_of_a_copy_and_with_its_cancellation(bench: Bench, shop: Shop, tmp_path: Path) -> None:
    harness = opened(bench, shop, tmp_path, connections=1)
    asked = iter([False, False, *[True] * 10])
    copy_tables(replace(copying(harness), stops=lambda: next(asked)), CopyKind.BOOTSTRAP, [GOODS])
    (reading,) = harness.pipeline.ledger.copied_tables()
    assert reading.state is CopyState.READING
    assert reading.is_bounded, "they say which chunks are left"
    cancel_copies(harness.pipeline, [GOODS])
    (given_up,) = harness.pipeline.ledger.copied_tables()
    assert given_up.state is CopyState.CANCELLED
    assert not given_up.is_bounded
    assert harness.rows("copies", *GOODS.path) == []
