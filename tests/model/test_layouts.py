"""Partition fields as a configuration writes them."""

from __future__ import annotations

import pytest

from dts_assets.model.layouts import PartitionTransform, column_name, partition_transform


@pytest.mark.parametrize(
    ("text", "transform", "column"),
    [
        ("months(created_at)", "month", "created_at"),
        ("years( d )", "year", "d"),
        ("days(`created at`)", "day", "created at"),
        ("hours(`a``b`)", "hour", "a`b"),
        ("bucket(16, id)", "bucket[16]", "id"),
        ("bucket(016,id)", "bucket[16]", "id"),
        ("truncate(4, 订单)", "truncate[4]", "订单"),
        ("region", "identity", "region"),
        ("`a(b)`", "identity", "a(b)"),
    ],
)
def test_a_partition_field_is_read(text: str, transform: str, column: str) -> None:
    assert partition_transform(text) == PartitionTransform(transform, column)


@pytest.mark.parametrize(
    "text",
    ["", " ", "months()", "month(a)", "months(3, a)", "bucket(id)", "bucket(0, id)", "bucket(-1, id)", "bucket(99999999999, id)",
     "truncate(a, 4)", "days(a, b)", "bucket(16, id", "a)b", "void(a)", "`a", "``"],
)  # fmt: skip
def test_other_texts_are_none(text: str) -> None:
    assert partition_transform(text) is None


def test_a_name_is_read_with_and_without_quotes() -> None:
    assert [column_name(one) for one in ("a", " a ", "`a b`", "a,b", "")] == ["a", "a", "a b", None, None]
