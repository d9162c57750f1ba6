"""Cases of PostgreSQL by DRS JSON: large values that were not logged, replica identities, names, types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dts_emulator.conformance.expected import Built, Case
from dts_emulator.conformance.formats import DRS
from dts_emulator.conformance.postgresql_story import PostgresqlStory
from dts_emulator.drs.postgresql_task import PostgresqlOptions, produce_from_postgresql

_RULE = f"{DRS}, table 4; PostgreSQL manual, REPLICA IDENTITY"
_FORMATS = ("drs-json",)
_LARGE = "large value " * 300


@dataclass(frozen=True, slots=True)
class PostgresqlCase:
    """A story of a PostgreSQL, and how it is told."""

    name: str
    title: str
    trap: str
    tell: Callable[[PostgresqlStory], None]
    options: Mapping[str, Any] = field(default_factory=dict)
    has_copies: bool = False

    def case(self) -> Case:
        """Return the case in the formats that tell a PostgreSQL."""
        return Case(f"postgresql_{self.name}", self.title, self.trap, _RULE, _FORMATS, self._built)

    def _built(self, name: str) -> Built:
        story, options = PostgresqlStory(), PostgresqlOptions(**self.options)
        self.tell(story)
        messages = produce_from_postgresql(story.transactions, story.columns(), options)
        return Built(
            tuple(messages), story.tables(), "PostgreSQL", partitions=options.partitions, has_copies=self.has_copies
        )


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
            "changes are applied twice", _unchanged, {"pause_every": 4, "repeated": 3}, has_copies=True,
        ),
    )
)  # fmt: skip
