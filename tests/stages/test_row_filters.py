"""Row filters held against Spark: random expressions of the listed subset give the same three truths on the same rows."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dts_assets.model.row_filters import misfit
from dts_assets.settings.row_filters import filter_of
from dts_assets.stages.row_filters import truths
from tests.tiers import times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "i": (pa.int32(), "int"),
    "l": (pa.int64(), "bigint"),
    "m": (pa.decimal128(12, 2), "decimal(12,2)"),
    "u": (pa.decimal128(20, 0), "decimal(20,0)"),
    "f": (pa.float32(), "float"),
    "d": (pa.float64(), "double"),
    "s": (pa.string(), "string"),
    "b": (pa.bool_(), "boolean"),
    "day": (pa.date32(), "date"),
    "at": (pa.timestamp("us", "UTC"), "timestamp"),
    "wall time": (pa.timestamp("us"), "timestamp_ntz"),
}
LAKE = {name: kind for name, (_, kind) in TYPES.items()}

WHOLE = [0, 1, -1, 7, 10, 255, 2147483647, -2147483648]
LONG = [*WHOLE, 9223372036854775807, -9223372036854775808, 9007199254740993, 9007199254740992]
MONEY = [Decimal(one) for one in ("0.00", "1.50", "-1.50", "10.00", "9999999999.99", "-0.01", "7.00")]
UNSIGNED = [Decimal(one) for one in ("0", "1", "18446744073709551615", "9223372036854775808", "7", "-1")]
DOUBLES = [0.0, -0.0, 1.5, 0.1, math.nan, math.inf, -math.inf, 1e300, -7.0, 16777217.0, 9007199254740992.0]
FLOATS = [0.0, -0.0, 1.5, 0.10000000149011612, math.nan, math.inf, -7.0, 16777216.0, 3.4028234663852886e38]
TEXTS = [
    "",
    "a",
    "A",
    "a ",
    " a",
    "ab",
    "a%b",
    "a_b",
    "铁观音",
    "é",
    "e\u0301",
    "🍵",
    "line\nbreak",
    "NULL",
    "10",
    "it's",
    "Z",
    "z",
]
DAYS = [date(2026, 1, 5), date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 4), date(2026, 1, 4)]
MOMENTS = [
    datetime(2026, 1, 5), datetime(2026, 1, 5, 7, 0, 0, 250000), datetime(1970, 1, 1), datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 5, 0, 0, 0, 1), datetime(1969, 12, 31, 23, 59, 59, 1),
]  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "i": WHOLE, "l": LONG, "m": MONEY, "u": UNSIGNED, "f": FLOATS, "d": DOUBLES, "s": TEXTS, "b": [True, False],
    "day": DAYS, "at": [one.replace(tzinfo=UTC) for one in MOMENTS], "wall time": MOMENTS,
}  # fmt: skip
ROWS = 60


def rows(random: Random) -> pa.Table:
    """Rows with every value at least once and NULL among them."""
    columns = {}
    for name, values in VALUES.items():
        some = [*values, None, *(random.choice([*values, None]) for _ in range(ROWS))][:ROWS]
        random.shuffle(some)
        columns[name] = pa.array(some, TYPES[name][0])
    return pa.table(columns)


def quoted(text: str) -> str:
    return f'"{text}"' if "'" in text else f"'{text}'"


def literal(random: Random, name: str) -> str:
    if name in ("i", "l", "m", "u"):
        some = ["0", "1", "-1", "7", "10", "1.5", "-1.50", "1.505", ".5", "7.", "9999999999.99", "2147483648",
                "9007199254740993", "-9223372036854775808"]  # fmt: skip
        return random.choice([*some, "18446744073709551615"] if name in ("m", "u") else some)
    if name in ("f", "d"):
        return random.choice(
            ["0", "-7", "1.5", "0.1", "1e300", "-1E-3", "16777216", "16777217", "9007199254740993", "1.5e0"]
        )
    if name == "s":
        return quoted(random.choice(TEXTS))
    if name == "b":
        return random.choice(["true", "FALSE"])
    day = random.choice(DAYS).isoformat()
    if name == "day":
        return random.choice(
            [f"DATE '{day}'", f"'{day}'", f"TIMESTAMP '{day} 00:00:00'", f"TIMESTAMP_NTZ '{day} 07:00:00'"]
        )
    moment = random.choice(MOMENTS).isoformat(sep=" ")
    return random.choice(
        [f"'{moment}'", f"'{day}'", f"DATE '{day}'", f"TIMESTAMP '{moment}'", f"TIMESTAMP_NTZ '{moment}'"]
    )


def like(random: Random) -> str:
    pattern = "".join(
        random.choice(["%", "_", "a", "A", "b", "!%", "!_", "!!", "铁", ".", "*", " "])
        for _ in range(random.randrange(5))
    )
    return f"'{pattern}' ESCAPE '!'" if "!" in pattern else f"'{pattern}'"


def expression(random: Random, depth: int = 0) -> str:
    if depth < 3 and random.random() < 0.45:
        kind = random.randrange(3)
        if kind == 0:
            return f"NOT {expression(random, depth + 1)}"
        joined = f" {random.choice(['AND', 'OR', 'and'])} ".join(
            expression(random, depth + 1) for _ in range(random.randint(2, 3))
        )
        return f"({joined})" if random.random() < 0.6 else joined
    name = random.choice(list(TYPES))
    shown, negated = f"`{name}`" if " " in name or random.random() < 0.2 else name, random.choice(["", "NOT "])
    match random.randrange(7):
        case 0:
            return f"{shown} IS {negated}NULL"
        case 1:
            return f"{shown} {negated}IN ({', '.join(literal(random, name) for _ in range(random.randint(1, 3)))})"
        case 2 if name != "b":
            return f"{shown} {negated}BETWEEN {literal(random, name)} AND {literal(random, name)}"
        case 3:
            return f"s {negated}LIKE {like(random)}"
        case 4:
            return random.choice(["b", f"{shown} <=> NULL", f"NULL <=> {shown}"])
        case 5:
            return f"{literal(random, name)} {random.choice(['=', '<', '<=', '>', '>=', '<>', '<=>'])} {shown}"
    return f"{shown} {random.choice(['=', '==', '<', '<=', '>', '>=', '<>', '!=', '<=>'])} {literal(random, name)}"


@pytest.mark.spark
def test_spark_says_the_same_of_every_row(spark: SparkSession) -> None:
    random = Random(17)
    table = rows(random)
    frame = spark.createDataFrame(table)
    expressions = [expression(random) for _ in range(times(300, 2000))]
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    for first in range(0, len(expressions), 100):
        some = expressions[first : first + 100]
        found = frame.selectExpr(*(f"({one}) AS e{number}" for number, one in enumerate(some))).toArrow()
        for number, one in enumerate(some):
            rows_ = filter_of(one)
            assert misfit(rows_, LAKE) is None
            assert truths(rows_, columns).to_pylist() == found[f"e{number}"].to_pylist(), one
