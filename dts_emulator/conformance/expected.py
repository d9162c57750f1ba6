"""A case: its messages, and the rows and changes that a right consumer ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dts_emulator.conformance.texts import ValueKind, in_milliseconds, kind_of_type
from dts_emulator.messages.message import Message

TextRow = Mapping[str, str | None]
"""The canonical texts of a row by column. NULL is None, and a column that an image does not carry is left out."""


@dataclass(frozen=True, slots=True)
class ExpectedColumn:
    """A column by the source's own words."""

    name: str
    type: str

    @property
    def kind(self) -> ValueKind:
        """The kind by which its values are compared."""
        return kind_of_type(self.type)


@dataclass(frozen=True, slots=True)
class ExpectedChange:
    """A change in the order of the source. ``absent`` names columns that the images do not carry: ``after.note``."""

    op: str
    before: TextRow | None
    after: TextRow | None
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectedTable:
    """A table as it is in the end.

    ``changes`` is None where the case does not judge changes. ``key`` is empty where rows have no identity: equal rows stand
    as often as the table has them.
    """

    database: str
    schema: str
    name: str
    columns: tuple[ExpectedColumn, ...]
    key: tuple[str, ...]
    rows: tuple[TextRow, ...]
    changes: tuple[ExpectedChange, ...] | None = None

    def cut_to_milliseconds(self) -> ExpectedTable:
        """Return the table as a format tells it that has no more than milliseconds."""
        kinds = {column.name: column.kind for column in self.columns}

        def cut(row: TextRow | None) -> TextRow | None:
            if row is None:
                return None
            return {
                name: None if text is None else in_milliseconds(kinds.get(name, ValueKind.TEXT), text)
                for name, text in row.items()
            }

        changes = None
        if self.changes is not None:
            changes = tuple(ExpectedChange(one.op, cut(one.before), cut(one.after), one.absent) for one in self.changes)
        rows = tuple(found for row in self.rows if (found := cut(row)) is not None)
        return ExpectedTable(self.database, self.schema, self.name, self.columns, self.key, rows, changes)


@dataclass(frozen=True, slots=True)
class Built:
    """A case in one format.

    ``assumes`` is said where the vendor's pages are silent, and the messages are made by an assumption of the emulator.
    ``quarantine`` counts messages or events that cannot be used, by the reason that dts-assets gives. ``schema`` is the file
    that the messages are read with. ``lineages`` is the number of servers or tasks that the topic tells one after the other.
    """

    messages: tuple[Message, ...]
    tables: tuple[ExpectedTable, ...]
    source_type: str
    time_zone: str = "+00:00"
    partitions: int = 1
    schema: bytes | None = None
    quarantine: Mapping[str, int] = field(default_factory=dict)
    has_copies: bool = False
    lineages: int = 1
    assumes: str | None = None
    judged_by: str = "a model of the tables"


@dataclass(frozen=True, slots=True)
class Case:
    """A case: what happens, the mistake that it finds, and where the rule for it is written.

    ``name`` says what happens in words joined by underscores. ``build`` makes the case in one of ``formats``.
    """

    name: str
    title: str
    trap: str
    rule: str
    formats: Sequence[str]
    build: Callable[[str], Built]
