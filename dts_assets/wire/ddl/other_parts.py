"""Parts of statements that no schema has: indexes, options, foreign keys, partitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """The kind of a part; the value is its name for people."""

    INDEX = "indexes"
    CHECK = "checks"
    FOREIGN_KEY = "foreign keys"
    CASCADE = "foreign keys that change rows"
    DEFAULT = "defaults that are no literals"
    EXPRESSION = "expressions of generated columns"
    NUMBERS = "AUTO_INCREMENT"
    PARTITIONS = "partitions"
    ENGINE = "engines other than InnoDB"
    OPTION = "options and comments"


@dataclass(frozen=True, slots=True)
class OtherPart:
    """A part of a statement.

    ``table`` is another table that it names, as its database (None: that of the statement's own table) and its name. With
    ``reaches`` it may reach beyond the table in a way that its words do not show.
    """

    part: Part
    table: tuple[str | None, str] | None = None
    reaches: bool = False
