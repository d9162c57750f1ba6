"""Meetings that the generator leaves out, each with its reason: what colleagues mend, and what docs/ says is not followed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.meetings.features import RULED, Feature

F = Feature


@dataclass(frozen=True)
class Avoided:
    """A statement that is not said where some features are, any of them."""

    why: str
    features: frozenset[Feature]
    matches: Callable[[str], bool]


def _alters(sql: str, *names: str) -> bool:
    return sql.startswith("ALTER TABLE") and bool(re.search(rf"\b(?:{'|'.join(names)})\b", sql.split(None, 3)[3], re.I))


AVOIDED: Final = (
    Avoided(
        "docs/rules.md: a rule but hash on a column of the primary key lets the table stand still",
        frozenset({F.RULES}),
        lambda sql: sql.startswith("ALTER") and "PRIMARY KEY (" in sql and _alters(sql, *RULED),
    ),
)


def is_avoided(sql: str, features: frozenset[Feature]) -> bool:
    """Whether a statement is left out where some features meet."""
    return any(one.features & features and one.matches(sql) for one in AVOIDED)
