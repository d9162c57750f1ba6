"""Statements of changelog rows: texts by hand from the rules of the vendors' demos, and laws of their quotes."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.key_periods import KeyPeriod, ToldColumns
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.mysql_sql import NO_SUCH_NUMBER, MySql
from dts_assets.stages.postgres_sql import NO_NUL, NO_SUCH_DATE
from dts_assets.stages.sql_dialect import SqlColumn
from dts_assets.stages.sql_text import hex_digits
from dts_assets.stages.statement_script import Script, statement_script_rows
from dts_assets.stages.statements import (
    NO_COLUMNS,
    NO_KEY,
    NO_VALUES,
    StatementTable,
    moved_keys,
    moved_rows,
    statement_rows,
)
from dts_assets.wire.columns.lake_texts import decimal_texts, exact_texts, float_texts
from tests.stages.rendering import DIALECTS, ORDERS, change, changelog, column, rendered
from tests.tiers import examples

ID, NOTE = column("id", "bigint", "bigint(20)", key=True), column("note", "string", "varchar(20)")
PLAIN_ID = column("id", "bigint", "bigint(20)")


class TestOperations:
    """One statement for each operation."""

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            (
                change("insert", after={"id": 1, "note": "tea"}),
                "INSERT INTO `shop`.`orders` (`id`, `note`) VALUES (1, 'tea')",
            ),
            (
                change("read", after={"id": 1, "note": None}),
                "INSERT INTO `shop`.`orders` (`id`, `note`) VALUES (1, NULL)",
            ),
            (
                change("update", {"id": 1, "note": "tea"}, {"id": 1, "note": ""}),
                "UPDATE `shop`.`orders` SET `id` = 1, `note` = '' WHERE `id` = 1",
            ),
            (
                change("update", {"id": 103, "note": None}, {"id": 104, "note": None}),
                "UPDATE `shop`.`orders` SET `id` = 104, `note` = NULL WHERE `id` = 103",
            ),
            (change("delete", {"id": 1, "note": "tea"}), "DELETE FROM `shop`.`orders` WHERE `id` = 1"),
            (change("truncate"), "TRUNCATE TABLE `shop`.`orders`"),
        ],
        ids=["insert", "read", "update", "key moves", "delete", "truncate"],
    )
    def test_rows_of_a_table_with_a_key_are_found_by_it(self, rows: dict[str, Any], expected: str) -> None:
        assert rendered([ID, NOTE], [rows]) == [expected]

    @pytest.mark.parametrize(("dialect", "put"), [("mysql", "REPLACE INTO"), ("postgresql", "ON CONFLICT")])
    def test_a_row_that_moves_is_put_at_its_key_where_a_copy_may_have_it_nowhere(self, dialect: str, put: str) -> None:
        """A row may move to a part of its table that was read, from one that is read later."""
        rows = [
            change("update", {"id": 103, "note": "tea"}, {"id": 104, "note": None}),
            change("update", {"id": 7, "note": "tea"}, {"id": 7, "note": "Tea"}),
            change("update", {"id": 103, "note": None}, {"id": 105, "note": None}, absent=["after.note"]),
            change("insert", after={"id": 1, "note": None}),
        ]
        changes = changelog([ID, NOTE], rows)
        table = StatementTable(ORDERS, (ID, NOTE), DIALECTS[dialect])
        moved = moved_keys(changes, table, {})
        first, *others = moved_rows(changes, table, {}, moved).to_pylist()
        assert put in first
        assert "(104, NULL)" in first
        assert others == [None, None, None]
        made, _ = statement_rows(changes, table, {})
        written = Script(DIALECTS[dialect]).text(statement_script_rows(made, moved, pa.array([first, *others])))
        assert f"{first};" in written.splitlines()

    def test_without_a_key_a_row_is_found_by_all_its_bytes_and_one_alone_changes(self) -> None:
        rows = [
            change("delete", {"id": 1, "note": None}),
            change("update", {"id": 1, "note": "tea"}, {"id": 1, "note": "Tea"}),
        ]
        assert rendered([PLAIN_ID, NOTE], rows) == [
            "DELETE FROM `shop`.`orders` WHERE `id` = 1 AND CAST(CONVERT(`note` USING utf8mb4) AS BINARY) IS NULL LIMIT 1",
            "UPDATE `shop`.`orders` SET `id` = 1, `note` = 'Tea' WHERE `id` = 1 "
            "AND CAST(CONVERT(`note` USING utf8mb4) AS BINARY) = 'tea' LIMIT 1",
        ]
        assert rendered([PLAIN_ID, NOTE], rows[:1], dialect="postgresql") == [
            'DELETE FROM "shop"."orders" WHERE ctid = '
            '(SELECT ctid FROM "shop"."orders" WHERE "id" = 1 AND "note" IS NULL LIMIT 1)'
        ]

    def test_a_value_that_was_not_sent_is_default_in_values_and_nothing_elsewhere(self) -> None:
        rows = [
            change("insert", after={"id": 1, "note": None}, absent=["after.note"]),
            change("update", {"id": 1, "note": None}, {"id": 2, "note": None}, absent=["before.note", "after.note"]),
            change("update", {"id": None, "note": "a"}, {"id": 2, "note": "b"}, absent=["before.id"]),
            change("update", None, {"id": 2, "note": "b"}),
        ]
        assert rendered([ID, NOTE], rows) == [
            "INSERT INTO `shop`.`orders` (`id`, `note`) VALUES (1, DEFAULT)",
            "UPDATE `shop`.`orders` SET `id` = 2 WHERE `id` = 1",
            "UPDATE `shop`.`orders` SET `id` = 2, `note` = 'b' WHERE `id` = 2",
            "UPDATE `shop`.`orders` SET `id` = 2, `note` = 'b' WHERE `id` = 2",
        ]
        assert rendered([PLAIN_ID, NOTE], [change("delete", {"id": 1, "note": None}, absent=["before.note"])]) == [
            "DELETE FROM `shop`.`orders` WHERE `id` = 1 LIMIT 1"
        ]

    def test_a_change_that_does_not_tell_its_row_is_a_comment(self) -> None:
        nothing = ["before.id", "before.note", "after.id", "after.note"]
        blank = {"id": None, "note": None}
        rows = [
            change("delete", blank, absent=nothing[:2]),
            change("update", {"id": 1, "note": None}, blank, absent=nothing[2:], at=9),
        ]
        assert rendered([ID, NOTE], rows) == [
            f"-- shop.orders: no statement for the delete at 0/5/7, row 0: {NO_KEY}",
            f"-- shop.orders: no statement for the update at 0/5/9, row 0: {NO_VALUES}",
        ]
        assert NO_COLUMNS in rendered([PLAIN_ID, NOTE], rows)[0]
        assert NO_COLUMNS in rendered([column("j", "string", "json")], [change("delete", {"j": "{}"})])[0]

    def test_rows_keep_their_order_and_their_coordinates(self) -> None:
        rows = [
            change(op, {"id": n, "note": "a"}, {"id": n, "note": "b"}, row_number=n, at=n, kafka_offset=100 - n)
            for n, op in enumerate(["delete", "insert", "update", "truncate", "insert", "delete"])
        ]
        table = StatementTable(ORDERS, (ID, NOTE), MySql())
        batch = changelog([ID, NOTE], rows)
        found, refused = statement_rows(batch, table, {})
        assert refused == 0
        assert [text.split()[0] for text in found["statement"].to_pylist()] == [
            *("DELETE", "INSERT", "UPDATE", "TRUNCATE", "INSERT", "DELETE")
        ]
        for name in ("source_position", "row_number", "kafka_partition", "kafka_offset", "window_start"):
            assert found[name] == batch[name]
        assert found.num_rows == 6

    def test_a_slice_of_a_batch_is_rendered_as_the_whole(self) -> None:
        rows = [
            change("insert", after={"id": n, "note": "é" * n}, absent=["after.note"] if n % 2 else [],
                   invalid=[] if n % 3 else [("after.id", "9" * 30)])
            for n in range(9)
        ]  # fmt: skip
        table = StatementTable(ORDERS, (ID, NOTE), MySql())
        batch = changelog([ID, NOTE], rows)
        whole = statement_rows(batch, table, {})[0]["statement"].to_pylist()
        assert whole[0] == f"INSERT INTO `shop`.`orders` (`id`, `note`) VALUES ({'9' * 30}, '')"
        assert statement_rows(batch.slice(3, 4), table, {})[0]["statement"].to_pylist() == whole[3:7]
        assert statement_rows(batch.slice(3, 0), table, {})[0].num_rows == 0


class TestToldColumns:
    """Columns that came and went, and keys that changed, each at its positions."""

    def test_an_insert_lists_what_its_event_carried_in_the_order_of_the_event(self) -> None:
        late = column("late", "string", "text")
        place = SourcePosition
        lists = (
            KeyPeriod(place(0, 5, 1), place(0, 5, 10), ("note", "id")),
            KeyPeriod(place(0, 5, 11), place(0, 5, 20), ("late", "id", "note")),
            KeyPeriod(place(0, 5, 21), place(0, 6, 1), ("note", "id")),
        )
        rows = [change("insert", after={"id": 1, "note": "a", "late": None}, at=at) for at in (5, 15, 25)]
        found = rendered([ID, NOTE, late], rows, told={0: ToldColumns((), lists)})
        assert [re.search(r"\((.*?)\) VALUES \((.*)\)", text).groups() for text in found] == [  # type: ignore[union-attr]
            ("`note`, `id`", "'a', 1"),
            ("`late`, `id`, `note`", "NULL, 1, 'a'"),
            ("`note`, `id`", "'a', 1"),
        ]

    def test_a_row_is_found_by_the_key_of_its_moment(self) -> None:
        keys = tuple(
            KeyPeriod(SourcePosition(0, 5, first), SourcePosition(0, 5, first + 9), columns)
            for first, columns in ((0, ()), (10, ("id",)), (20, ("note",)))
        )
        rows = [change("delete", {"id": 1, "note": "a"}, at=at) for at in (5, 15, 25)]
        assert [text.partition("WHERE ")[2] for text in rendered([ID, NOTE], rows, told={0: ToldColumns(keys)})] == [
            "`id` = 1 AND CAST(CONVERT(`note` USING utf8mb4) AS BINARY) = 'a' LIMIT 1", "`id` = 1", "`note` = 'a'",
        ]  # fmt: skip

    def test_each_kafka_partition_has_its_own_periods(self) -> None:
        whole = (SourcePosition(0, 0, 0), SourcePosition(0, 9, 0))
        told = {0: ToldColumns((), (KeyPeriod(*whole, ("id",)),)), 1: ToldColumns((), (KeyPeriod(*whole, ("note",)),))}
        rows = [change("insert", after={"id": 1, "note": "a"}, kafka_partition=number) for number in (0, 1, 2)]
        assert [text.partition("` (")[2] for text in rendered([ID, NOTE], rows, told=told)] == [
            "`id`) VALUES (1)", "`note`) VALUES ('a')", "`id`, `note`) VALUES (1, 'a')",
        ]  # fmt: skip


VALUES = [
    ("bigint", "bigint(20)", -7, "-7", "-7"),
    ("decimal(20,0)", "bigint(20) unsigned", Decimal(2**64 - 1), str(2**64 - 1), str(2**64 - 1)),
    ("decimal(30,10)", "decimal(30,10)", Decimal("-1E-10"), "-0.0000000001", "-0.0000000001"),
    ("string", "decimal(50,20)", "-0.10", "-0.10", "-0.10"),
    ("string", "decimal(50,20)", "1 OR 1", "'1 OR 1'", "'1 OR 1'"),
    ("float", "float", 0.1, "0.1e0", "'0.1'"),
    ("double", "double", -0.0, "-0e0", "'-0'"),
    ("double", "double", 1e300, "1e+300", "'1e+300'"),
    ("int", "year(4)", 5, "'0005'", "5"),
    ("boolean", "boolean", True, "TRUE", "TRUE"),
    ("date", "date", date(1, 2, 3), "'0001-02-03'", "'0001-02-03'"),
    ("timestamp_ntz", "datetime(6)", datetime(2021, 6, 25, 17, 51, 53), "'2021-06-25 17:51:53'", "'2021-06-25 17:51:53'"),
    (
        "timestamp", "timestamp(3)", datetime(2021, 5, 17, 7, 22, 42, 120000, UTC),
        "'2021-05-17 07:22:42.120000'", "'2021-05-17 07:22:42.120000+00'",
    ),
    ("string", "time", "-838:59:59", "'-838:59:59'", "'-838:59:59'"),
    ("string", "text", "it's \"`", "'it''s \"`'", "'it''s \"`'"),
    ("string", "text", "a\\b", "_utf8mb4 X'615C62'", r"E'a\\b'"),
    ("string", "text", "a\n\t'\x1b", "_utf8mb4 X'610A09271B'", r"E'a\n\t''\x1b'"),
    ("binary", "blob", b"J\x00'", "X'4A0027'", "'\\x4a0027'::bytea"),
    ("binary", "blob", b"", "''", "''"),
    ("binary", "binary(4)", b"J", "X'4A000000'", "'\\x4a'::bytea"),
]  # fmt: skip


@pytest.mark.parametrize(("lake", "source", "value", "mysql", "postgres"), VALUES, ids=lambda value: str(value)[:20])
def test_values_are_written_so_that_they_are_read_as_they_are(
    lake: str, source: str, value: Any, mysql: str, postgres: str
) -> None:
    for dialect, expected in (("mysql", mysql), ("postgresql", postgres)):
        (found,) = rendered([column("v", lake, source)], [change("insert", after={"v": value})], dialect=dialect)
        assert found.partition("VALUES ")[2] == f"({expected})"


@pytest.mark.parametrize(
    ("lake", "source", "text", "mysql", "postgres"),
    [
        ("date", "date", "0000-00-00", "'0000-00-00'", NO_SUCH_DATE),
        ("timestamp", "timestamptz", "infinity", "'infinity'", "'infinity'"),
        ("int", "int(11)", "99999999999", "99999999999", "99999999999"),
        ("int", "int(11)", "x'); DROP", "'x''); DROP'", "'x''); DROP'"),
        ("string", "varchar(9)", "0xFF80", "X'FF80'", "'0xFF80'"),
    ],
)
def test_values_that_did_not_fit_are_their_original_text(
    lake: str, source: str, text: str, mysql: str, postgres: str
) -> None:
    row = change("insert", after={"v": None}, invalid=[("after.v", text)])
    for dialect, expected in (("mysql", mysql), ("postgresql", postgres)):
        (found,) = rendered([column("v", lake, source)], [row], dialect=dialect)
        assert expected in found
        assert found.startswith("--") == (expected == NO_SUCH_DATE)


@pytest.mark.parametrize(
    ("dialect", "lake", "value", "reason"),
    [
        ("postgresql", "string", "a\0b", NO_NUL),
        ("mysql", "double", float("nan"), NO_SUCH_NUMBER),
        ("mysql", "float", float("-inf"), NO_SUCH_NUMBER),
    ],
)
def test_a_value_that_a_dialect_cannot_write_is_named_by_a_comment_without_the_value(
    dialect: str, lake: str, value: Any, reason: str
) -> None:
    columns = [ID, column("v", lake)]
    rows = [change("insert", after={"id": 1, "v": value}), change("delete", {"id": 1, "v": value})]
    insert, delete = rendered(columns, rows, dialect=dialect)
    assert insert == f"-- shop.orders: no statement for the insert at 0/5/7, row 0: {reason}"
    assert delete.endswith(" = 1")  # its key alone is needed


def test_numbers_that_only_postgres_has_are_written_by_their_names() -> None:
    values = [float("nan"), float("inf"), float("-inf")]
    rows = [change("insert", after={"v": value}) for value in values]
    found = rendered([column("v", "double")], rows, dialect="postgresql")
    assert [text.partition("VALUES ")[2] for text in found] == ["('NaN')", "('Infinity')", "('-Infinity')"]


@pytest.mark.parametrize(
    ("table", "mysql", "postgres"),
    [
        (TableId("d", "", 'a`b"c'), '`d`.`a``b"c`', '"d"."a`b""c"'),
        (TableId("d", "s", "t"), "`s`.`t`", '"s"."t"'),
        (TableId("", "SCOTT", "EMP"), "`SCOTT`.`EMP`", '"SCOTT"."EMP"'),
        (TableId("", "", "t; DROP"), "`t; DROP`", '"t; DROP"'),
    ],
)
def test_names_of_tables_stand_behind_their_schema_or_their_database(table: TableId, mysql: str, postgres: str) -> None:
    for dialect, expected in (("mysql", mysql), ("postgresql", postgres)):
        assert rendered([ID], [change("truncate")], dialect=dialect, table=table) == [f"TRUNCATE TABLE {expected}"]


def test_the_comment_of_a_refused_row_stays_a_comment_whatever_the_table_is_called() -> None:
    table = TableId("d\n", "", "t\r\u2028DROP TABLE x")
    (found,) = rendered([ID], [change("delete", {"id": None}, absent=["before.id"])], table=table)
    assert found.startswith("-- d?.t??DROP")
    assert len(found.splitlines()) == 1


# The readers below are written from the manuals of the servers, and know nothing of the writers.

_MYSQL = re.compile(r"_utf8mb4 X'(?P<introduced>[0-9A-F]*)'|X'(?P<bytes>[0-9A-F]*)'|'(?P<text>(?:[^'\\]|'')*)'")
_POSTGRES = re.compile(
    r"E'(?P<escaped>(?:[^'\\]|''|\\.)*)'|'\\x(?P<bytes>[0-9a-f]*)'::bytea|'(?P<text>(?:[^'\\]|'')*)'", re.S
)


def read_mysql(literal: str) -> Any:
    found = _MYSQL.fullmatch(literal)
    assert found, literal
    if found["introduced"] is not None:
        return bytes.fromhex(found["introduced"]).decode()
    return bytes.fromhex(found["bytes"]) if found["bytes"] is not None else found["text"].replace("''", "'")


def read_postgres(literal: str) -> Any:
    found = _POSTGRES.fullmatch(literal)
    assert found, literal
    if found["bytes"] is not None:
        return bytes.fromhex(found["bytes"])
    if found["text"] is not None:
        return found["text"].replace("''", "'")
    named = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}

    def unescaped(one: re.Match[str]) -> str:
        return "'" if one[0] == "''" else chr(int(one[1], 16)) if one[1] else named[one[0][1]]

    return re.sub(r"''|\\x([0-9a-f]{2})|\\.", unescaped, found["escaped"])


NASTY = st.text(st.sampled_from("a'\"`\\%_;-\n\r\t\x01\x1a\x7fé中🚲\u2028 "), max_size=12) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20
)


@examples(200)
@given(st.lists(st.one_of(st.none(), NASTY), min_size=1, max_size=8))
def test_any_text_is_read_back_and_stays_on_its_line(texts: list[str | None]) -> None:
    for dialect, read in (("mysql", read_mysql), ("postgresql", read_postgres)):
        found = rendered(
            [column("v", "string", "text")], [change("insert", after={"v": one}) for one in texts], dialect=dialect
        )
        assert not any(set(statement) & set(map(chr, range(32))) for statement in found)
        literals = [statement.partition("VALUES (")[2].removesuffix(")") for statement in found]
        assert [None if one == "NULL" else read(one) for one in literals] == texts


@examples(100)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=8), st.integers(0, 3))
def test_any_bytes_are_read_back(values: list[bytes], skipped: int) -> None:
    for dialect, read in (("mysql", read_mysql), ("postgresql", read_postgres)):
        found = rendered(
            [column("v", "binary", "blob")], [change("insert", after={"v": one}) for one in values], dialect=dialect
        )
        literals = [statement.partition("VALUES (")[2].removesuffix(")") for statement in found]
        assert [(one and read(one)) or b"" for one in literals] == values
    array = pa.array([*values, None], pa.binary()).slice(skipped)
    expected = [None if one is None else one.hex().upper() for one in array.to_pylist()]
    assert hex_digits(array).to_pylist() == expected


@examples(200)
@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_have_all_their_digits_and_no_exponent(unscaled: int, scale: int) -> None:
    value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    (text,) = decimal_texts(pa.array([value], pa.decimal128(38, scale))).to_pylist()
    assert re.fullmatch(r"-?\d+(\.\d+)?", text)
    assert (Decimal(text), len(text.partition(".")[2])) == (value, scale)
    assert not text.startswith("-0") or Decimal(text) == 0 or text[2] == "."


@examples(200)
@given(st.floats(allow_nan=False), st.floats(allow_nan=False, width=32))
def test_floats_are_read_back_bit_by_bit(double: float, single: float) -> None:
    doubles, singles = pa.array([double, None], pa.float64()), pa.array([single, None], pa.float32())
    for texts in (float_texts(doubles), exact_texts(doubles)):
        assert np.float64(texts[0].as_py()).tobytes() == np.float64(double).tobytes()
    with np.errstate(over="ignore"):
        for texts in (float_texts(singles), exact_texts(singles)):
            assert np.float32(float(texts[0].as_py())).tobytes() == np.float32(single).tobytes()
    assert float(exact_texts(singles)[0].as_py()) == single
    assert float_texts(singles)[1].as_py() is None


@examples(50)
@given(st.text(min_size=1, max_size=20))
def test_any_name_is_read_back(name: str) -> None:
    for dialect, sign in (("mysql", "`"), ("postgresql", '"')):
        quoted = DIALECTS[dialect].quoted(name)
        assert re.fullmatch(f"{sign}(?:[^{sign}]|{sign}{sign})*{sign}", quoted)
        assert quoted[1:-1].replace(sign * 2, sign) == name


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE t (id INT);", ["CREATE TABLE t (id INT);"]),
        ("ALTER TABLE t ADD c INT -- by hand", ["ALTER TABLE t ADD c INT -- by hand\n;"]),
        ("CREATE PROCEDURE p() BEGIN DO 1; END", ["DELIMITER //", "CREATE PROCEDURE p() BEGIN DO 1; END\n//", "DELIMITER ;"]),
        ("CREATE TABLE t (a INT COMMENT ';//')", ["DELIMITER ///", "CREATE TABLE t (a INT COMMENT ';//')\n///", "DELIMITER ;"]),
    ],
)  # fmt: skip
def test_statements_of_the_source_end_where_they_end(sql: str, expected: list[str]) -> None:
    assert list(DIALECTS["mysql"].statement(sql)) == expected


def test_statements_of_the_source_are_comments_in_postgres_line_by_line() -> None:
    sql = "CREATE TABLE t (\n id INT\r\n) \x0bDROP TABLE x;"
    assert list(DIALECTS["postgresql"].statement(sql)) == [
        "-- CREATE TABLE t (", "--  id INT", "-- ) ", "-- DROP TABLE x;"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET NEW.x = 1",
        "CREATE DEFINER=`root`@`localhost` TRIGGER t AFTER DELETE ON a\nFOR EACH ROW BEGIN DELETE FROM b; END",
        "create or replace definer = CURRENT_USER() event e on schedule every 1 day do delete from a",
    ],
)
def test_what_acts_by_itself_is_a_comment_because_the_changelog_has_its_work(sql: str) -> None:
    lines = DIALECTS["mysql"].statement(sql)
    assert lines
    assert all(line.startswith("-- ") for line in lines)


def test_a_column_is_called_as_the_source_called_it() -> None:
    spelled = SqlColumn(Column("Id", "bigint", True, ("Id", "ID")), "ID", "bigint")
    assert rendered([spelled], [change("delete", {"Id": 3})]) == ["DELETE FROM `shop`.`orders` WHERE `ID` = 3"]
