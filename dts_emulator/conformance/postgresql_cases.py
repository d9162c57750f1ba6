"""Cases of PostgreSQL and GaussDB by DRS JSON, and of TDSQL PostgreSQL by DTS Protobuf.

They are about large values that were not logged, replica identities, names, and types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dts_emulator.conformance.expected import Built, Case
from dts_emulator.conformance.formats import DRS, DTS
from dts_emulator.conformance.plays import AFTERWARDS
from dts_emulator.conformance.postgresql_story import PostgresqlStory
from dts_emulator.drs import postgresql_task as drs_task
from dts_emulator.dts import postgresql_task as dts_task
from dts_emulator.dts.postgresql_options import PostgresqlDtsOptions

_RULE = f"{DRS}, table 4; {DTS}; PostgreSQL manual, REPLICA IDENTITY"
_GAUSSDB_RULE = f"{DRS}, table 4; GaussDB manual, Data Types"
_LARGE = "large value " * 300
_ASSUMES = (
    "the position of an entry is its LSN as a number, fileName is empty, and NA stands for a value that was not logged"
)


@dataclass(frozen=True, slots=True)
class PostgresqlCase:
    """A story of a PostgreSQL or a GaussDB, and how it is told.

    ``options`` are those of DRS, ``by_dts`` those of DTS, which are None where DTS does not tell the story.
    """

    name: str
    title: str
    trap: str
    tell: Callable[[PostgresqlStory], None]
    options: Mapping[str, Any] = field(default_factory=dict)
    by_dts: Mapping[str, Any] | None = field(default_factory=dict)
    has_copies: bool = False
    source: str = "PostgreSQL"
    rule: str = _RULE

    def case(self) -> Case:
        """Return the case in the formats that tell it."""
        formats = ("drs-json",) if self.by_dts is None else ("drs-json", "dts-protobuf")
        name = f"{self.source.partition(' ')[0].lower()}_{self.name}"
        return Case(name, self.title, self.trap, self.rule, formats, self._built)

    def _built(self, name: str) -> Built:
        story = PostgresqlStory()
        self.tell(story)
        if name == "dts-protobuf":
            return self._told_by_dts(story)
        options = drs_task.PostgresqlOptions(**{"db_type": self.source, **self.options})
        messages = drs_task.produce_from_postgresql(story.transactions, story.columns(), options)
        tables = story.tables(database=options.database)
        return Built(tuple(messages), tables, self.source, partitions=options.partitions, has_copies=self.has_copies)

    def _told_by_dts(self, story: PostgresqlStory) -> Built:
        options = PostgresqlDtsOptions(**(self.by_dts or {}))
        until = int(story.transactions[-1].committed.timestamp()) + AFTERWARDS
        messages = tuple(dts_task.produce_from_postgresql(story.transactions, story.columns(), options, until=until))
        return Built(
            messages, story.tables(database=""), f"TDSQL {self.source}", partitions=options.partitions,
            has_copies=self.has_copies, assumes=_ASSUMES,
        )  # fmt: skip


def _unchanged(story: PostgresqlStory) -> None:
    table = story.table("notes", {"id": "integer", "title": "text", "body": "text"}, large=("body",))
    story.insert(table, *({"id": str(number), "title": "first", "body": f"{_LARGE}{number}"} for number in range(1, 5)))
    story.update(table, {"id": "1"}, {"title": "second"})
    story.update(table, {"id": "2"}, {"title": "second", "body": "short"})
    story.update(table, {"id": "3"}, {"id": "30"})
    story.update(table, {"id": "4"}, {"body": None})
    story.insert(table, {"id": "5", "title": "unchanged-toast-datum", "body": "unchanged-toast-datum"})


def _whole_identity(story: PostgresqlStory) -> None:
    columns = {"word": "character varying", "n": "integer"}
    table = story.table("bag", columns, key=(), identity="full")
    story.insert(table, *[{"word": "x", "n": "1"}] * 3, {"word": None, "n": "2"}, {"word": "", "n": None})
    story.delete(table, {"word": "x"})
    story.update(table, {"word": None}, {"n": "3"})
    story.update(table, {"word": ""}, {"word": None})
    story.insert(table, {"word": None, "n": None})


def _moved(story: PostgresqlStory) -> None:
    table = story.table("pairs", {"a": "integer", "b": "text", "note": "text"}, key=("a", "b"))
    story.insert(table, *({"a": str(number), "b": "x", "note": f"note {number}"} for number in range(1, 4)))
    story.update(table, {"a": "1"}, {"b": "y"})
    story.update(table, {"a": "2"}, {"a": "1", "note": None})
    story.delete(table, {"a": "3"})
    story.insert(table, {"a": "2", "b": "x", "note": "new"})


def _case_only(story: PostgresqlStory) -> None:
    table = story.table("twins", {"Id": "integer", "id": "integer", "ID": "text"}, key=("Id",))
    story.insert(table, {"Id": "1", "id": "10", "ID": "one"}, {"Id": "2", "id": "20", "ID": None})
    story.update(table, {"Id": "1"}, {"id": "11"})
    other = story.table("Notes", {"id": "integer", 'q "x"': "text"}, schema="Sales #1")
    same = story.table("notes", {"id": "integer", 'q "x"': "text"}, schema="sales")
    for name in (other, same):
        story.insert(name, {"id": "1", 'q "x"': name[0]})


def _types(story: PostgresqlStory) -> None:
    table = story.table(
        "types",
        {
            "id": "bigint", "price": "numeric", "wide": "double precision", "single": "real", "paid": "boolean", "raw": "bytea",
            "doc": "jsonb", "day": "date", "clock": "timestamp without time zone", "seen": "timestamp with time zone",
            "words": "text[]",
        },
    )  # fmt: skip
    story.insert(
        table,
        {
            "id": "9223372036854775807", "price": "123456789012345678901234567890123456789012345678901234567890.5", "wide": "0.1",
            "single": "3.4028235e+38", "paid": "t", "raw": "\\x00ff5c", "doc": '{"b": 1, "a": 1.50}', "day": "9999-12-31",
            "clock": "2026-01-05 10:11:12.000001", "seen": "2026-01-05 10:11:12.5+08", "words": '{"a,b",NULL,"NULL"}',
        },
        {"id": "-1", "price": "0.00", "wide": "5e-324", "single": "1e-45", "paid": "f", "raw": "\\x", "doc": "null"},
        {"id": "0"},
    )  # fmt: skip
    story.update(table, {"id": "0"}, {"id": "1", "words": "{}", "raw": "\\xff"})


def _gaussdb_types(story: PostgresqlStory) -> None:
    table = story.table(
        "types",
        {
            "id": "number", "small": "tinyint", "raw": "raw", "large": "blob", "minute": "smalldatetime", "word": "nvarchar2",
            "text": "clob", "price": "numeric", "paid": "boolean",
        },
    )  # fmt: skip
    story.insert(
        table,
        {
            "id": "12345678901234567890123456789012345678.5", "small": "255", "raw": "00FF5C", "large": "CAFE00",
            "minute": "2026-01-05 10:11:00", "word": "\u4f60", "text": "a\\b", "price": "-0.50", "paid": "t",
        },
        {"id": "-1", "small": "0", "raw": "00", "large": "", "word": "", "paid": "f"},
        {"id": "0"},
    )  # fmt: skip
    story.update(table, {"id": "0"}, {"id": "1", "large": "FF", "small": "7"})
    story.delete(table, {"id": "-1"})


POSTGRESQL_CASES: tuple[Case, ...] = tuple(
    one.case()
    for one in (
        PostgresqlCase(
            "large_value_that_was_not_logged",
            "An UPDATE leaves a large value as it was, and the text unchanged-toast-datum stands for it",
            "the text stands in the row, or the value becomes NULL", _unchanged,
        ),
        PostgresqlCase(
            "large_value_that_is_missing", "An UPDATE leaves a large value as it was, and its column is not in the message",
            "the value becomes NULL", _unchanged, {"unchanged": "missing", "beside_key": "missing"},
            {"old_key": "none"},
        ),
        PostgresqlCase(
            "table_without_a_key", "Equal rows of a table with REPLICA IDENTITY FULL",
            "NULL in old is taken for not sent, or equal rows become one",
            _whole_identity,
        ),
        PostgresqlCase(
            "update_that_moves_the_key", "old has NULL beside the key, since the log has the key alone",
            "a row is looked for that has NULL in all other columns", _moved,
        ),
        PostgresqlCase(
            "names_that_differ_in_case", '"Id", id and "ID" are three columns', "columns or tables become one", _case_only,
        ),
        PostgresqlCase(
            "types_of_their_own", "numeric of 61 digits, bytea, jsonb, arrays and instants with an offset",
            "a value is rounded, or an offset is not applied", _types,
        ),
        PostgresqlCase(
            "redelivery_after_a_restart", "The task is resumed again and again, and sends its last messages once more",
            "changes are applied twice", _unchanged, {"pause_every": 4, "repeated": 3}, {"restart_every": 2},
            has_copies=True,
        ),
        PostgresqlCase(
            "types_of_their_own", "number of 39 digits, tinyint, raw, blob, smalldatetime, nvarchar2 and clob",
            "a value is rounded, or digits of bytes stay digits", _gaussdb_types, by_dts=None,
            source="GaussDB Centralized", rule=_GAUSSDB_RULE,
        ),
        PostgresqlCase(
            "large_value_that_is_missing", "An UPDATE leaves a large value as it was, and its column is not in the message",
            "the value becomes NULL, or the column is gone",
            _unchanged, {"unchanged": "untold", "beside_key": "missing"}, None, source="GaussDB Distributed",
            rule=_GAUSSDB_RULE,
        ),
        PostgresqlCase(
            "table_without_a_key", "Equal rows of a table with REPLICA IDENTITY FULL",
            "NULL in old is taken for not sent, or equal rows become one", _whole_identity, by_dts=None,
            source="GaussDB Primary/Standby", rule=_GAUSSDB_RULE,
        ),
    )
)  # fmt: skip
