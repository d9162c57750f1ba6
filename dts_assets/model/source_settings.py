"""A source database by the settings and declarations that decide what its binlog tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dts_assets.model.tables import TableId


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table as its server declares it; ``parents`` are tables whose foreign keys change its rows."""

    table: TableId
    engine: str
    has_key: bool
    has_json: bool = False
    is_versioned: bool = False
    parents: tuple[TableId, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The variables of a server that concern its binlog, and its tables that are decoded."""

    variables: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[DeclaredTable, ...] = ()


class Follows(StrEnum):
    """The worst that follows from a finding for rows of the lake."""

    MISSING = "missing"
    WRONG = "wrong"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a source that people should know: a sentence, and what follows from it."""

    follows: Follows
    sentence: str

    @property
    def is_wrong(self) -> bool:
        """True if rows of the lake are, or become, other than those of the source."""
        return self.follows is not Follows.UNPROVEN
