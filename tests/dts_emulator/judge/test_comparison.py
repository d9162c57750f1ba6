"""Verdicts on snapshots: what counts as equal, and what is said where it is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.model.tables import TableId
from dts_emulator.judge.comparison import Verdict, compare, differences

Text = str | None


def dump(folder: Path, columns: Sequence[tuple[str, str, bool]], rows: Sequence[Sequence[Text]]) -> Path:
    """A dump as the emulator writes it."""
    described = [{"name": name, "type": type_, "key": key} for name, type_, key in columns]
    description = {"database": "shop", "table": "t", "columns": described}
    schema = pa.schema(
        [(name, pa.string()) for name, _, _ in columns], metadata={b"source_table": json.dumps(description).encode()}
    )
    arrays = [pa.array([row[index] for row in rows], pa.string()) for index in range(len(columns))]
    pq.write_table(pa.table(arrays, schema=schema), folder / "shop.t.parquet")
    return folder / "shop.t.parquet"


def judge(folder: Path, type_: str, text: Text, value: pa.Array) -> Verdict:
    """The verdict on a table of one row: key 1 and one column."""
    file = dump(folder, [("id", "int(11)", True), ("c", type_, False)], [["1", text]])
    return compare(pa.table({"id": pa.array([1], pa.int32()), "c": value}), file)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("bigint(20) unsigned", "18446744073709551615", pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0))),
        ("int(8) unsigned zerofill", "00000042", pa.array([42], pa.int64())),
        ("year(4)", "0000", pa.array([0], pa.int32())),
        ("bit(3)", "5", pa.array([5], pa.int64())),
        ("decimal(10,2)", "-3.50", pa.array([Decimal("-3.50")], pa.decimal128(10, 2))),
        ("decimal(60,20)", "1.00000000000000000001", pa.array(["1.00000000000000000001"])),
        ("float", "0.10000000149011612", pa.array([0.1], pa.float32())),
        ("double", "0.1", pa.array([0.1], pa.float64())),
        ("double(12,3)", "1.500", pa.array([1.5], pa.float64())),
        ("date", "9999-12-31", pa.array([date(9999, 12, 31)])),
        ("date", "0000-00-00", pa.array([None], pa.date32())),
        ("datetime(6)", "1000-01-01 00:00:00.000001", pa.array([datetime(1000, 1, 1, 0, 0, 0, 1)], pa.timestamp("us"))),
        ("timestamp", "2026-01-05 08:00:00", pa.array([datetime(2026, 1, 5, 8, tzinfo=UTC)], pa.timestamp("us", "UTC"))),
        ("time(2)", "-00:00:00.01", pa.array(["-00:00:00.01"])),
        ("varchar(9)", "NULL", pa.array(["NULL"])),
        ("varchar(9)", "", pa.array([""], pa.large_string())),
        ("varchar(9)", None, pa.array([None], pa.string())),
        ("binary(3)", "00FF41", pa.array([b"\x00\xffA"], pa.binary())),
        ("blob", "", pa.array([b""], pa.large_binary())),
        ("enum('a','')", "", pa.array([""])),
    ],
)  # fmt: skip
def test_equal_values(tmp_path: Path, type_: str, text: Text, value: pa.Array) -> None:
    verdict = judge(tmp_path, type_, text, value)
    assert verdict.equal
    assert str(verdict) == "shop.t: 1 rows, equal"


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("int(11)", None, pa.array([0], pa.int32())),
        ("varchar(9)", "", pa.array([None], pa.string())),
        ("varchar(9)", None, pa.array([""])),
        ("varchar(9)", "a", pa.array(["A"])),
        ("char(9)", "a", pa.array(["a "])),
        ("float", "0.10000000149011612", pa.array([0.1], pa.float64())),
        ("double", "0", pa.array([-0.0])),
        ("decimal(10,2)", "3.50", pa.array([3.5])),
        ("datetime", "2026-01-05 08:00:00", pa.array([datetime(2026, 1, 5, 8)], pa.timestamp("us", "UTC"))),
        ("timestamp", "2026-01-05 08:00:00", pa.array([datetime(2026, 1, 5, 8)], pa.timestamp("us"))),
        ("timestamp", "2026-01-05 08:00:00", pa.array([datetime(2026, 1, 5, 0)], pa.timestamp("us", "UTC"))),
        ("time", "08:00:00", pa.array(["08:00:00.5"])),
        ("blob", "41", pa.array(["41"]).cast(pa.binary())),
        ("varchar(9)", "a", pa.array([b"a"])),
        ("date", "2026-01-05", pa.array([None], pa.date32())),
    ],
)  # fmt: skip
def test_different_values(tmp_path: Path, type_: str, text: Text, value: pa.Array) -> None:
    verdict = judge(tmp_path, type_, text, value)
    assert not verdict.equal
    assert verdict.differing_rows == 1
    assert verdict.keys == ("id=1",)


KEYED = [("a", "int(11)", True), ("b", "varchar(9)", True), ("secret", "text", False)]


def test_rows_are_matched_by_key_whatever_their_order(tmp_path: Path) -> None:
    file = dump(tmp_path, KEYED, [["1", "x", "s"], ["1", "y", "t"], ["2", "x", "u"]])
    found = pa.table(
        {"_kafka_offset": [0, 1, 2], "secret": ["u", "t", "s"], "b": ["x", "y", "x"], "_event_time": [0] * 3,
         "_kafka_partition": [0] * 3, "a": [2, 1, 1]}
    )  # fmt: skip
    assert compare(found, file).equal


def test_a_verdict_names_keys_and_no_other_value(tmp_path: Path) -> None:
    file = dump(tmp_path, KEYED, [["1", "x", "hidden"], ["2", "x", "gone"], ["3", "x", "same"]])
    verdict = compare(pa.table({"a": [1, 3, 4], "b": ["x"] * 3, "secret": ["other", "same", "new"]}), file)
    assert verdict.differing_rows == 3
    assert verdict.keys == ("a=1, b=x", "a=2, b=x", "a=4, b=x")
    assert (verdict.rows_expected, verdict.rows_found) == (3, 3)
    assert not any(word in str(verdict) for word in ("hidden", "other", "gone", "new"))


def test_only_the_first_few_keys_are_named(tmp_path: Path) -> None:
    file = dump(tmp_path, KEYED, [[str(number), "x", "s"] for number in range(40)])
    verdict = compare(
        pa.table({"a": pa.array([], pa.int32()), "b": pa.array([], pa.string()), "secret": pa.array([], pa.string())}),
        file,
    )
    assert (verdict.differing_rows, len(verdict.keys), verdict.rows_found) == (40, 5, 0)


def test_a_key_twice_is_a_difference(tmp_path: Path) -> None:
    file = dump(tmp_path, KEYED, [["1", "x", "s"]])
    verdict = compare(pa.table({"a": [1, 1], "b": ["x", "x"], "secret": ["s", "s"]}), file)
    assert verdict.keys == ("a=1, b=x",)


def test_tables_without_a_key_are_bags(tmp_path: Path) -> None:
    file = dump(tmp_path, [("n", "int(11)", False)], [["1"], ["1"], ["2"]])
    assert compare(pa.table({"n": [2, 1, 1]}), file).equal
    verdict = compare(pa.table({"n": [2, 2, 1]}), file)
    assert (verdict.differing_rows, verdict.keys) == (1, ())


def test_missing_and_extra_columns_are_named(tmp_path: Path) -> None:
    file = dump(tmp_path, KEYED, [["1", "x", "s"]])
    verdict = compare(pa.table({"a": [1], "b": ["x"], "c": [0]}), file)
    assert (verdict.missing_columns, verdict.extra_columns, verdict.differing_rows) == (("secret",), ("c",), 0)
    assert not verdict.equal
    assert str(verdict).endswith("missing columns secret; extra columns c")


def test_a_source_column_with_a_coordinates_name_is_looked_for_under_its_prefix(tmp_path: Path) -> None:
    file = dump(tmp_path, [("_event_time", "int(11)", True)], [["7"]])
    assert compare(pa.table({"_source__event_time": [7], "_event_time": [0]}), file).equal


def test_a_file_that_is_no_dump_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet is no dump"):
        compare(pa.table({"a": [1]}), tmp_path / "other.parquet")


ONE = TableId("shop", "", "t")


def test_differences_are_the_tables_that_are_not_equal(tmp_path: Path) -> None:
    dump(tmp_path, KEYED, [["1", "x", "s"]])
    same = pa.table({"a": [1], "b": ["x"], "secret": ["s"]})
    assert differences({ONE: same}, tmp_path) == ()
    (verdict,) = differences({ONE: same.set_column(0, "a", [[2]])}, tmp_path)
    assert (verdict.table, verdict.differing_rows) == (ONE, 2)


def test_a_table_on_one_side_alone_is_empty_on_the_other(tmp_path: Path) -> None:
    assert differences({TableId("shop", "", "u"): pa.table({"a": pa.array([], pa.int32())})}, tmp_path) == ()
    (verdict,) = differences({TableId("shop", "", "u"): pa.table({"a": [1]})}, tmp_path)
    assert str(verdict) == "shop.u: 1 rows differ, 1 found, 0 expected"
    dump(tmp_path, KEYED, [["1", "x", "s"], ["2", "x", "s"]])
    (verdict,) = differences({}, tmp_path)
    assert str(verdict) == "shop.t: 2 rows differ, 0 found, 2 expected"
    dump(tmp_path, KEYED, [])
    assert differences({}, tmp_path) == ()


def test_bags_are_compared_where_there_is_a_snapshot(tmp_path: Path) -> None:
    dump(tmp_path, [("n", "int(11)", False)], [["1"]])
    assert differences({}, tmp_path) == ()
    assert len(differences({ONE: pa.table({"n": [1, 1]})}, tmp_path)) == 1


def test_a_column_that_the_database_does_not_have_yet_holds_nothing(tmp_path: Path) -> None:
    dump(tmp_path, KEYED, [["1", "x", "s"]])
    same = pa.table({"a": [1], "b": ["x"], "secret": ["s"]})
    assert differences({ONE: same.append_column("later", pa.array([None], pa.string()))}, tmp_path) == ()
    (verdict,) = differences({ONE: same.append_column("later", [["?"]])}, tmp_path)
    assert verdict.extra_columns == ("later",)
