"""Other lake types on request: which source types a mapping means, and which it leaves alone."""

from __future__ import annotations

import pytest

from dts_assets.model.columns import mysql_type
from dts_assets.model.type_mappings import TypeMapping, mapped_type

ALL = (TypeMapping.TINYINT1_TO_BOOLEAN, TypeMapping.BIGINT_UNSIGNED_TO_BIGINT, TypeMapping.DATETIME_TO_TIMESTAMP)


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("tinyint(1)", "boolean"),
        ("TINYINT ( 1 )", "boolean"),
        ("tinyint(1) unsigned", None),
        ("tinyint(1) unsigned zerofill", None),
        ("tinyint(4)", None),
        ("tinyint", None),
        ("bigint(20) unsigned", "bigint"),
        ("bigint(20)", None),
        ("bit(64)", None),
        ("decimal(20,0)", None),
        ("datetime", "timestamp"),
        ("datetime(6)", "timestamp"),
        ("date", None),
        ("timestamp", None),
        ("nobody knows", None),
    ],
)
def test_a_mapping_means_its_own_type_alone(original: str, expected: str | None) -> None:
    usual = mysql_type(original) or "string"
    assert mapped_type(original, usual, ALL) == expected
    assert mapped_type(original, usual, ()) is None
    assert mapped_type(original, usual, (TypeMapping.TO_STRING, *ALL)) == (None if usual == "string" else "string")


def test_an_unsigned_value_of_a_type_without_a_sign_is_mapped_too() -> None:
    """DRS names no sign: the type of such a column is widened when the first unsigned value comes."""
    assert mapped_type("bigint", mysql_type("bigint", unsigned=True) or "", ALL) == "bigint"


@pytest.mark.parametrize("original", ["blob", "binary(4)", "point"])
def test_bytes_never_become_text(original: str) -> None:
    assert mapped_type(original, "binary", (TypeMapping.TO_STRING,)) is None
