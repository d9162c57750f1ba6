"""The effects that a statement may have on tables, as values and as a line of text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from dts_assets.model.tables import TableId
from dts_assets.wire.ddl.column_definitions import ColumnDefinition


class EffectKind(StrEnum):
    """The kind of an effect; the value begins its text.

    With ROWS, rows come or go by no event, as with a partition that is dropped.
    """

    CREATE_TABLE = "create"
    DROP_TABLE = "drop"
    TRUNCATE_TABLE = "truncate"
    RENAME_TABLE = "rename"
    ADD_COLUMN = "add column"
    DROP_COLUMN = "drop column"
    RENAME_COLUMN = "rename column"
    MODIFY_COLUMN = "modify column"
    DEFAULT = "default"
    PRIMARY_KEY = "primary key"
    ROWS = "rows"
    INDEX = "index"
    CREATE_DATABASE = "create database"
    DROP_DATABASE = "drop database"
    ALTER_DATABASE = "alter database"
    VIEW = "view"
    ROUTINE = "routine"
    OTHER = "other"


HARMLESS = frozenset(
    {
        EffectKind.INDEX,
        EffectKind.DEFAULT,
        EffectKind.CREATE_DATABASE,
        EffectKind.ALTER_DATABASE,
        EffectKind.VIEW,
        EffectKind.ROUTINE,
        EffectKind.OTHER,
    }
)
"""Effects after which every table has the rows, the columns and the key that it had."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a statement.

    ``tables`` is the table (of a rename the old and the new table; empty where no table is meant). ``columns`` is the column
    (of a rename the old and the new column; of ``create`` all that the statement names). ``definition`` belongs to added and
    modified columns, ``database`` to effects on a database.
    """

    kind: EffectKind
    tables: tuple[TableId, ...] = ()
    columns: tuple[str, ...] = ()
    definition: ColumnDefinition | None = None
    database: str | None = None

    def __str__(self) -> str:
        """Return one line for people and for comparing, such as ``truncate shopdb.orders``."""
        renames = self.kind in (EffectKind.RENAME_TABLE, EffectKind.RENAME_COLUMN)
        words = [str(self.kind)]
        if self.kind is EffectKind.RENAME_COLUMN or (self.columns and self.kind is not EffectKind.CREATE_TABLE):
            words.append(f"{_shown(*self.tables[0].parts)}.{_shown(self.columns[0])}")
            words += ["to", _shown(self.columns[1])] if renames else []
        elif self.tables:
            words.append(_shown(*self.tables[0].parts))
            words += ["to", _shown(*self.tables[1].parts)] if renames else []
        elif self.database is not None:
            words.append(_shown(self.database))
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class ParsedDdl:
    """The effects of a statement, in its order; one that was not ``parsed`` may do anything."""

    parsed: bool
    effects: tuple[Effect, ...]

    @property
    def effect(self) -> str | None:
        """All effects on one line; None if the statement was not understood."""
        return "; ".join(str(effect) for effect in self.effects) if self.parsed else None

    @property
    def harmless(self) -> bool:
        """The certainty that every table has the rows, the columns and the key that it had."""
        return self.parsed and all(effect.kind in HARMLESS for effect in self.effects)


NOT_PARSED = ParsedDdl(False, ())
"""The effects of a statement that nobody reads."""


def _shown(*parts: str) -> str:
    return ".".join(part if re.fullmatch(r"[\w$-]+", part) else "`" + part.replace("`", "``") + "`" for part in parts)
