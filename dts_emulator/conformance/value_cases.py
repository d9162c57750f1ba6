"""Cases about values at their borders: numbers, dates, texts, bytes, NULL, escapes of JSON."""

from __future__ import annotations

from dts_emulator.conformance.expected import Case
from dts_emulator.conformance.formats import Abilities
from dts_emulator.conformance.mysql_cases import MysqlCase
from dts_emulator.conformance.plays import with_escapes
from dts_emulator.conformance.story import Row, Story, column, each, key

_DRS = ("drs-json", "drs-json-c", "drs-avro")
_TYPES = "MySQL manual, Data Types; the vendor's table of types"


def _told_every_way(story: Story, table: tuple[str, str], rows: list[Row]) -> None:
    """Insert rows, write them again under other keys, and delete the first of them."""
    story.insert(table, *rows)
    story.update_each(table, [({"id": row["id"]}, {"id": 100 + int(str(row["id"]))}) for row in rows])
    story.insert(table, *rows)
    story.delete(table, {"id": rows[0]["id"]})


def _numbers(story: Story, abilities: Abilities) -> None:
    wide = "9" * 35 + "." + "9" * 30
    table = story.table(
        "numbers", key(), column("big", "bigint(20) unsigned"), column("small", "tinyint(4)"),
        column("price", "decimal(65,30)"), column("digits", "decimal(38,0)"), column("total", "int(6) unsigned zerofill"),
    )  # fmt: skip
    _told_every_way(story, table, [
        {"id": 1, "big": 18446744073709551615, "small": -128, "price": wide, "digits": "9" * 38, "total": 4294967295},
        {"id": 2, "big": 9223372036854775808, "small": 127, "price": f"-{wide}", "digits": "-" + "9" * 38, "total": 0},
        {"id": 3, "big": 9223372036854775807, "small": 0, "price": "0." + "0" * 29 + "1", "digits": "0", "total": 42},
        {"id": 4, "big": 0, "small": -1, "price": "-0." + "0" * 29 + "1", "digits": "-1", "total": None},
    ])  # fmt: skip


def _floats(story: Story, abilities: Abilities) -> None:
    table = story.table("floats", key(), column("single", "float"), column("wide", "double"))
    _told_every_way(story, table, [
        {"id": 1, "single": 0.10000000149011612, "wide": 0.1},
        {"id": 2, "single": 16777216.0, "wide": 123456789012345678.0},
        {"id": 3, "single": 3.4028234663852886e38, "wide": 1.7976931348623157e308},
        {"id": 4, "single": 1.401298464324817e-45, "wide": 5e-324},
        {"id": 5, "single": -1e10, "wide": -1e-5},
    ])  # fmt: skip


def _bits(story: Story, abilities: Abilities) -> None:
    table = story.table("bits", key(), column("flag", "bit(1)"), column("twelve", "bit(12)"), column("all", "bit(64)"))
    _told_every_way(story, table, [
        {"id": 1, "flag": 1, "twelve": 4095, "all": 18446744073709551615},
        {"id": 2, "flag": 0, "twelve": 0, "all": 9223372036854775808},
        {"id": 3, "flag": None, "twelve": 49, "all": 0},
    ])  # fmt: skip


def _no_calendar(story: Story, abilities: Abilities) -> None:
    columns = [key(), column("day", "date"), column("at", "datetime"), column("fine", "datetime(3)")]
    rows: list[dict[str, str | int | None]] = [
        {"id": 1, "day": "0000-00-00", "at": "0000-00-00 00:00:00", "fine": "0000-00-00 00:00:00.000"},
        {"id": 2, "day": "2026-02-31", "at": "2026-00-00 00:00:00", "fine": "2026-01-05 00:00:00.100"},
        {"id": 3, "day": None, "at": None, "fine": None},
        {"id": 4, "day": "9999-12-31", "at": "0001-01-01 00:00:00", "fine": "1969-12-31 23:59:59.999"},
    ]  # fmt: skip
    if abilities.zero_instants:
        columns.append(column("seen", "timestamp"))
        for place, clock in enumerate(("0000-00-00 00:00:00", "1970-01-01 00:00:01", None, "2038-01-19 03:14:07")):
            rows[place]["seen"] = clock
    _told_every_way(story, story.table("days", *columns), [dict(row) for row in rows])


def _times(story: Story, abilities: Abilities) -> None:
    table = story.table("times", key(), column("span", "time"), column("fine", "time(6)"), column("born", "year(4)"))
    _told_every_way(story, table, [
        {"id": 1, "span": "-838:59:59", "fine": "-00:00:00.000001" if not abilities.milliseconds else "-00:00:00.001000",
         "born": 1901},
        {"id": 2, "span": "838:59:59", "fine": "838:59:58.987654", "born": 2155},
        {"id": 3, "span": "-00:00:01", "fine": "00:00:00.000000", "born": 0},
        {"id": 4, "span": "24:00:00", "fine": None, "born": None},
    ])  # fmt: skip


def _fractions(story: Story, abilities: Abilities) -> None:
    table = story.table("moments", key(), column("clock", "datetime(6)"), column("seen", "timestamp(6)"))
    _told_every_way(story, table, [
        {"id": 1, "clock": "2026-01-05 10:11:12.123456", "seen": "2026-01-05 02:11:12.123456"},
        {"id": 2, "clock": "1969-12-31 23:59:59.999999", "seen": "1970-01-01 00:00:01.000001"},
        {"id": 3, "clock": "2026-01-05 00:00:00.000001", "seen": "2038-01-19 03:14:07.999999"},
        {"id": 4, "clock": "2026-01-05 00:00:00.100000", "seen": None},
    ])  # fmt: skip


def _zones(story: Story, abilities: Abilities) -> None:
    table = story.table("zones", key(), column("clock", "datetime"), column("seen", "timestamp"))
    _told_every_way(story, table, [
        {"id": 1, "clock": "2026-01-05 10:00:00", "seen": "2026-01-05 02:00:00"},
        {"id": 2, "clock": "2026-01-01 00:00:00", "seen": "2025-12-31 16:00:00"},
        {"id": 3, "clock": None, "seen": None},
    ])  # fmt: skip


def _texts(story: Story, abilities: Abilities) -> None:
    table = story.table(
        "texts", key(), column("wide", "varchar(40)"), column("chinese", "varchar(40)", charset="gbk"),
        column("western", "varchar(40)", charset="latin1"), column("long", "longtext"),
    )  # fmt: skip
    _told_every_way(story, table, [
        {"id": 1, "wide": "𠀀😀 é", "chinese": "第一", "western": "café €", "long": "日本" * 300},
        {"id": 2, "wide": "e\u0301", "chinese": "丂", "western": "ÿþ", "long": " a "},
        {"id": 3, "wide": "\t\n\r\x7f", "chinese": "", "western": "it's", "long": ""},
    ])  # fmt: skip


def _labels(story: Story, abilities: Abilities) -> None:
    table = story.table(
        "labels", key(), column("mood", "enum('sad','it''s ok','第')"), column("marks", "set('x','y z','第')"),
        column("doc", "json"),
    )  # fmt: skip
    _told_every_way(story, table, [
        {"id": 1, "mood": "it's ok", "marks": "x,y z", "doc": '{"a": [1, 2.5, null, "é"]}'},
        {"id": 2, "mood": "第", "marks": "", "doc": "null"},
        {"id": 3, "mood": None, "marks": "第", "doc": None},
    ])  # fmt: skip


def _bytes(story: Story, abilities: Abilities) -> None:
    table = story.table(
        "bytes", key(), column("fixed", "binary(4)"), column("varied", "varbinary(40)"), column("large", "blob"),
        column("text", "varchar(40)"),
    )  # fmt: skip
    _told_every_way(story, table, [
        {"id": 1, "fixed": b"a\0\0\0", "varied": b"a\0\0", "large": bytes(range(256)), "text": "[97, 0, 0]"},
        {"id": 2, "fixed": b"\0\0\0\0", "varied": b"", "large": b"", "text": "[]"},
        {"id": 3, "fixed": b"\xff\xfe\x80\x7f", "varied": b"\0", "large": b"\x80\xff", "text": "[-128, -1]"},
        {"id": 4, "fixed": None, "varied": None, "large": None, "text": None},
        {"id": 5, "fixed": b"NULL", "varied": b"NULL", "large": "€".encode(), "text": "NULL"},
    ])  # fmt: skip


def _nothing(story: Story, abilities: Abilities) -> None:
    table = story.table(
        "notes", key(), column("note", "varchar(40)"), column("n", "int(11)"), column("raw", "varbinary(9)")
    )
    story.insert(
        table, {"id": 1, "note": None, "n": None, "raw": None}, {"id": 2, "note": "", "n": 0, "raw": b""},
        {"id": 3, "note": "NULL", "n": 1, "raw": b"NULL"}, {"id": 4, "note": "null", "n": 2, "raw": b"\0"},
    )  # fmt: skip
    story.update(table, {"id": 1}, {"note": "", "n": 0, "raw": b""})
    story.update(table, {"id": 2}, {"note": None, "n": None, "raw": None})
    story.update(table, {"id": 3}, {"note": " "})
    story.delete(table, {"id": 4})


_HOSTILE = (
    '"\\/\b\f\n\r\t',
    "<a href='x'>&amp;=</a>",
    "\u2028\u2029",
    "𠀀😀",
    "\\u0041",
    '{"data": [{"id": "9"}]}',
    "\x01\x1f\x7f",
)


def _escapes(story: Story, abilities: Abilities) -> None:
    table = story.table("quo'te", key(), column('t"ext', "varchar(99)"))
    story.insert(table, *each(range(len(_HOSTILE)), lambda number: {"id": number, 't"ext': _HOSTILE[number]}))
    story.update(table, {"id": 0}, {'t"ext': '\\"'})


VALUE_CASES: tuple[Case, ...] = tuple(
    one.case()
    for one in (
        MysqlCase(
            "numbers_at_their_borders", "Integers beyond 2^63 and decimals of 65 digits",
            "a bigint unsigned becomes negative or a double; a decimal is rounded", _TYPES, _numbers,
        ),
        MysqlCase(
            "floats_to_their_last_bit", "FLOAT and DOUBLE at their borders",
            "a single is read as a double of its short text, or rounded", _TYPES, _floats,
        ),
        MysqlCase(
            "bits", "BIT(1), BIT(12) and BIT(64)", "bits are taken for text, or for a boolean", _TYPES, _bits,
            assumes=dict.fromkeys(_DRS, "BIT is the text of a number"),
        ),
        MysqlCase(
            "dates_of_no_calendar", "Zero dates, 31 February and the years 1 and 9999",
            "a date of no calendar becomes NULL, another day, or stops the consumer", _TYPES, _no_calendar,
            assumes=dict.fromkeys(_DRS, "dates of no calendar are the texts that the server has"),
        ),
        MysqlCase(
            "times_below_zero_and_beyond_a_day", "TIME from -838 to 838 hours, and YEAR 0",
            "a TIME is taken for a time of day; the sign of -00:00:00.000001 is lost", _TYPES, _times,
            assumes={"dts-avro": "all parts of a TIME below zero are below zero"},
        ),
        MysqlCase(
            "fractions_of_seconds", "Microseconds of DATETIME and TIMESTAMP",
            "digits are cut, or zeros before them are lost; before 1970 they are counted backwards", _TYPES, _fractions,
        ),
        MysqlCase(
            "clocks_and_instants", "DATETIME is a clock, TIMESTAMP is an instant",
            "both are read in one zone, so that one of them is hours away", _TYPES, _zones,
        ),
        MysqlCase(
            "character_sets", "Text in utf8mb4, gbk and latin1",
            "bytes of a column are read in another character set; characters beyond U+FFFF are lost", _TYPES, _texts,
        ),
        MysqlCase(
            "labels_and_documents", "ENUM, SET and JSON",
            "the number of a label stands for the label; a JSON null becomes NULL", _TYPES, _labels,
        ),
        MysqlCase(
            "bytes_and_texts_that_look_like_them",
            "BINARY with zeros at its end, bytes of all values, and texts that look like them",
            "zeros at the end are cut; bytes go through a character set; the text [97, 0, 0] becomes bytes", _TYPES, _bytes,
        ),
        MysqlCase(
            "null_and_empty", "NULL, the empty text, the text NULL and empty bytes",
            "NULL and the empty text become one", _TYPES, _nothing, judges_changes=lambda abilities: True,
        ),
        MysqlCase(
            "escapes_of_json", "Quotes, control characters, line separators and halves of surrogate pairs as escapes",
            "texts are cut out of JSON by hand; a surrogate pair becomes two characters", "RFC 8259, section 7", _escapes,
            where=lambda abilities: abilities.is_json, play=with_escapes,
        ),
    )
)  # fmt: skip
