"""Values of every usual type: the ends of ranges, values between them, and NULL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from random import Random

from examples.shop_maker import words

Maker = Callable[[Random], object]


def _one_of(*values: object) -> Maker:
    return lambda random: random.choice(values)


def _whole(low: int, high: int) -> Maker:
    return lambda random: random.choice((low, high, 0, 1, random.randint(low, high)))


def _decimal(digits: int, scale: int, *, signed: bool = True) -> Maker:
    def make(random: Random) -> str:
        kept = random.choice((digits, digits, random.randint(1, digits)))
        number = random.randint(0, 10**kept - 1)
        sign = "-" if signed and random.random() < 0.4 else ""
        text = f"{number:0{scale + 1}d}"
        return f"{sign}{text[:-scale]}.{text[-scale:]}" if scale else f"{sign}{text}"

    return make


def _number(low: float, *special: float) -> Maker:
    def make(random: Random) -> float:
        spread = random.choice((1e-7, 1e-3, 1.0, 1e3, 1e6, 1e12))
        return random.choice((*special, random.uniform(low, 1.0) * spread))

    return make


def _day(random: Random) -> str:
    return str(date(1950, 1, 1) + timedelta(days=random.randint(0, 40_000)))


def _clock(random: Random) -> str:
    return f"{random.randint(0, 23):02d}:{random.randint(0, 59):02d}:{random.randint(0, 59):02d}"


def _moment(random: Random) -> str:
    return f"{_day(random)} {_clock(random)}"


def _instant(random: Random) -> str:
    return f"{date(1975, 1, 1) + timedelta(days=random.randint(0, 20_000))} {_clock(random)}"


def _fraction(maker: Maker, digits: int) -> Maker:
    return lambda random: f"{maker(random)}.{random.randint(0, 10**digits - 1):0{digits}d}"


def _mixed(maker: Maker, *special: object) -> Maker:
    return lambda random: random.choice(special) if special and random.random() < 0.25 else maker(random)


def _bytes(most: int) -> Maker:
    return lambda random: words.some_bytes(random, most)


def _text(random: Random) -> object:
    return random.choice(words.ODD) if random.random() < 0.5 else words.thing(random)


def _json(random: Random) -> str:
    return random.choice(
        (
            "{}", "[]", "null", "true", "-0.5e3", '"text"', '{"a": [1, 2.50, {"b": null}]}', '{"emoji": "🛒", "quote": "\\""}',
            f'{{"size": {random.randint(1, 60)},  "spaces kept" : [ ]}}',
        )
    )  # fmt: skip


MAKERS: Mapping[str, Maker] = {
    "c_tinyint": _whole(-128, 127),
    "c_tinyint_unsigned": _whole(0, 255),
    "c_bool": _one_of(0, 1),
    "c_smallint": _whole(-(2**15), 2**15 - 1),
    "c_smallint_unsigned": _whole(0, 2**16 - 1),
    "c_mediumint": _whole(-(2**23), 2**23 - 1),
    "c_mediumint_unsigned": _whole(0, 2**24 - 1),
    "c_int": _whole(-(2**31), 2**31 - 1),
    "c_int_unsigned": _whole(0, 2**32 - 1),
    "c_int_zerofill": _whole(0, 99_999_999),
    "c_bigint": _whole(-(2**63), 2**63 - 1),
    "c_bigint_unsigned": _whole(0, 2**64 - 1),
    "c_decimal": _decimal(10, 2),
    "c_decimal_unsigned": _decimal(12, 4, signed=False),
    "c_decimal_whole": _decimal(20, 0),
    "c_decimal_wide": _decimal(38, 10),
    "c_decimal_huge": _decimal(60, 20),
    "c_float": _number(-1.0, 0.0, -0.0, 1.17549435e-38, 3.4e38, -3.4e38, 1e6, 999999.0, 0.0001, 0.00009999),
    "c_float_unsigned": _number(0.0, 0.0, 12510357.0, 16777216.0),
    "c_double": _number(
        -1.0, 0.0, -0.0, 5e-324, 1.7976931348623157e308, 1e6, 999999.5, 1e-4, 9.999e-5, 0.1, 1e21, 2.0**53
    ),
    "c_double_scaled": lambda random: round(random.uniform(-999_999_999, 999_999_999), 3),
    "c_bit": _one_of(0, 1),
    "c_bit_17": _whole(0, 2**17 - 1),
    "c_bit_64": _whole(0, 2**64 - 1),
    "c_year": _one_of(0, 1901, 1999, 2026, 2155),
    "c_date": _mixed(_day, "1000-01-01", "9999-12-31", "1582-10-04", "1582-10-15", "1970-01-01", "2024-02-29"),
    "c_datetime": _mixed(_moment, "1000-01-01 00:00:00", "9999-12-31 23:59:59", "1969-12-31 23:59:59"),
    "c_datetime_6": _mixed(_fraction(_moment, 6), "1000-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999"),
    "c_timestamp": _mixed(_instant, "1970-01-01 00:00:01", "2038-01-19 03:14:07"),
    "c_timestamp_3": _fraction(_instant, 3),
    "c_timestamp_6": _mixed(_fraction(_instant, 6), "1970-01-01 00:00:01.000001", "2038-01-19 03:14:07.999999"),
    "c_time": _mixed(_clock, "-838:59:59", "838:59:59", "00:00:00", "-00:00:01", "100:00:00"),
    "c_time_2": _mixed(_fraction(_clock, 2), "-00:00:00.01", "838:59:58.99"),
    "c_time_6": _mixed(_fraction(_clock, 6), "-100:59:59.000001", "00:00:00.000001"),
    "c_char": lambda random: random.choice(("", "ab", "twelve chars", "日本", "🙂", "a b")),
    "c_char_latin1": _one_of("", "façade", "€ 5", "ÿ"),
    "c_varchar": _text,
    "c_varchar_latin1": _one_of("", "Ångström", "“quoted”", "naïve café", "plain"),
    "c_varchar_gbk": _one_of("", "中文字符", "￥100", "混合 mixed", "龍"),
    "c_varchar_utf8": _one_of("", "Ωmega", "ひらがな", "x\x00y"),
    "c_tinytext": _text,
    "c_text": _text,
    "c_text_gbk": _one_of("", "这是一段文字", "两行\n文字"),
    "c_mediumtext": lambda random: words.long_text(random, random.choice((0, 300, 3000))),
    "c_longtext_latin1": _one_of("", "Grüße", "£ and ¥"),
    "c_enum": _one_of("small", "medium", "large", "it's", ""),
    "c_enum_latin1": _one_of("café", "thé"),
    "c_set": _one_of("", "red", "red,blue", "green,naïve", "red,green,blue,naïve"),
    "c_json": _json,
    "c_binary": _bytes(8),
    "c_varbinary": _bytes(64),
    "c_tinyblob": _bytes(60),
    "c_blob": _bytes(90),
    "c_mediumblob": _bytes(120),
    "c_longblob": _bytes(30),
    "größe_cm": _decimal(6, 1),
}
"""The values of each column; any of them may also be NULL."""


def row(random: Random) -> dict[str, object]:
    """Return one row without its key. One row in twelve is NULL throughout."""
    if random.random() < 1 / 12:
        return dict.fromkeys(MAKERS)
    return {name: None if random.random() < 0.15 else make(random) for name, make in MAKERS.items()}
