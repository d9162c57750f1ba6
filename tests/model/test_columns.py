"""From the source's type text to the lake's type: nothing may lose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import SIMPLE_TYPES, decimal_arguments, is_lake_type, mysql_type, widened

MYSQL = [
    ("tinyint", "int"),
    ("tinyint(1)", "int"),
    ("tinyint(3) unsigned", "int"),
    ("smallint(6)", "int"),
    ("smallint unsigned", "int"),
    ("mediumint(9)", "int"),
    ("mediumint(8) unsigned zerofill", "int"),
    ("int", "int"),
    ("int(11)", "int"),
    ("integer", "int"),
    ("int unsigned", "bigint"),
    ("int(10) unsigned", "bigint"),
    ("INT(10) UNSIGNED", "bigint"),
    ("int(10) zerofill", "bigint"),
    ("bigint", "bigint"),
    ("bigint(20)", "bigint"),
    ("bigint unsigned", "decimal(20,0)"),
    ("bigint(20) unsigned zerofill", "decimal(20,0)"),
    ("decimal", "decimal(10,0)"),
    ("decimal(5)", "decimal(5,0)"),
    ("decimal(10,2)", "decimal(10,2)"),
    ("decimal(10, 2)", "decimal(10,2)"),
    ("numeric(12,4)", "decimal(12,4)"),
    ("dec(12,4) unsigned", "decimal(12,4)"),
    ("fixed(3,3)", "decimal(3,3)"),
    ("decimal(38,30)", "decimal(38,30)"),
    ("decimal(39,0)", "string"),
    ("decimal(0,0)", "string"),
    ("decimal(5,10)", "string"),
    ("decimal(10,-2)", "string"),
    ("decimal(-1,0)", "string"),
    ("decimal(10,99999999999)", "string"),
    (f"decimal({'9' * 5_000},2)", "string"),
    (f"decimal(10,{'9' * 5_000})", "string"),
    ("decimal(a,b)", "string"),
    ("decimal(,)", "string"),
    ("decimal(1,2,3)", "string"),
    ("decimal(\u0663,\u0662)", "string"),
    ("decimal()", "decimal(10,0)"),
    ("decimal( 10 , 2 )", "decimal(10,2)"),
    ("decimal(65,30)", "string"),
    ("float", "float"),
    ("float(7,4) unsigned", "float"),
    ("double", "double"),
    ("double precision", "double"),
    ("double(10,3)", "double"),
    ("real", "double"),
    ("bit", "bigint"),
    ("bit(1)", "bigint"),
    ("bit(63)", "bigint"),
    ("bit(64)", "decimal(20,0)"),
    ("bit(0)", "string"),
    ("bit(65)", "string"),
    ("bit(abc)", "string"),
    (f"bit({'9' * 5_000})", "string"),
    ("year", "int"),
    ("year(4)", "int"),
    ("date", "date"),
    ("datetime", "timestamp_ntz"),
    ("datetime(6)", "timestamp_ntz"),
    ("timestamp", "timestamp"),
    ("timestamp(3)", "timestamp"),
    ("time", "string"),
    ("time(6)", "string"),
    ("char(36)", "string"),
    ("varchar(255)", "string"),
    ("varchar(64) character set utf8mb4 collate utf8mb4_bin", "string"),
    ("tinytext", "string"),
    ("text", "string"),
    ("mediumtext", "string"),
    ("longtext", "string"),
    ("enum('a','b')", "string"),
    ("enum('with )','unsigned')", "string"),
    ("set('x','y')", "string"),
    ("json", "string"),
    ("binary(16)", "binary"),
    ("varbinary(255)", "binary"),
    ("tinyblob", "binary"),
    ("blob", "binary"),
    ("mediumblob", "binary"),
    ("longblob", "binary"),
    ("geometry", "binary"),
    ("point", "binary"),
    ("linestring", "binary"),
    ("polygon", "binary"),
    ("multipoint", "binary"),
    ("multilinestring", "binary"),
    ("multipolygon", "binary"),
    ("geometrycollection", "binary"),
    ("geomcollection", "binary"),
    ("vector(3)", None),
    ("", None),
]


@pytest.mark.parametrize(("original", "lake_type"), MYSQL)
def test_mysql_types(original: str, lake_type: str | None) -> None:
    assert mysql_type(original) == lake_type


@pytest.mark.parametrize(
    ("original", "lake_type"),
    [("tinyint", "int"), ("mediumint(8)", "int"), ("int(11)", "bigint"), ("bigint(20)", "decimal(20,0)"),
     ("decimal(10,2)", "decimal(10,2)"), ("float", "float"), ("bit(64)", "decimal(20,0)"), ("varchar(9)", "string")],
)  # fmt: skip
def test_a_value_of_an_unsigned_data_type_counts_where_the_text_says_nothing(original: str, lake_type: str) -> None:
    assert mysql_type(original, unsigned=True) == lake_type


@pytest.mark.parametrize("lake_type", sorted({kind for _, kind in MYSQL if kind is not None}))
def test_every_mapped_type_is_a_lake_type(lake_type: str) -> None:
    assert is_lake_type(lake_type)


@pytest.mark.parametrize(
    "text", ["", "INT", "decimal", "decimal(0,0)", "decimal(39,0)", "decimal(5,6)", "varchar", "array<int>", "int "]
)
def test_what_is_no_lake_type(text: str) -> None:
    assert not is_lake_type(text)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int", "int", "int"),
        ("int", "bigint", "bigint"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(12,3)", None),
        ("bigint", "decimal(20,0)", None),
        ("int", "double", None),
        ("bigint", "double", None),
        ("string", "binary", None),
        ("int", "string", None),
        ("timestamp", "timestamp_ntz", None),
        ("date", "timestamp_ntz", None),
    ],
)
def test_widening(one: str, other: str, both: str | None) -> None:
    assert widened(one, other) == widened(other, one) == both


decimals = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: f"decimal({precision},{scale})")
)
lake_types = st.sampled_from(sorted(SIMPLE_TYPES)) | decimals


@given(lake_types, lake_types, lake_types)
def test_widening_reaches_the_same_type_in_any_order(one: str, two: str, three: str) -> None:
    def through(first: str, second: str, third: str) -> str | None:
        both = widened(first, second)
        return None if both is None else widened(both, third)

    assert widened(one, one) == one
    both = widened(one, two)
    if both is not None:
        assert is_lake_type(both)
        assert widened(both, one) == widened(both, two) == both
    reached = {through(one, two, three), through(three, two, one), through(two, three, one)}
    assert len(reached - {None}) <= 1


@given(decimals)
def test_decimal_arguments(lake_type: str) -> None:
    precision, scale = decimal_arguments(lake_type) or (0, 0)
    assert lake_type == f"decimal({precision},{scale})"
    assert decimal_arguments(lake_type.replace("decimal", "numeric")) is None
