"""Tags of snapshots at closed cuts: ``cut-2026-01-05-03:00`` names the rows behind the window of that key."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dts_assets.model.windows import Window

_NAME = re.compile(r"cut-\d{4}-\d\d-\d\d-\d\d:\d\d")


def tag_of(window: Window) -> str:
    """Return the tag of a window: ``cut-2026-01-05-03:00``."""
    return f"cut-{window.key}"


def is_cut_tag(name: str) -> bool:
    """Return whether a reference of a table is such a tag. References of other names belong to other people."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class TagChange:
    """The tags that a commit gives to a table, in the same step as its rows.

    ``before`` name the version that stood until then, unless they name one already, and ``after`` the new one. Of the others
    those in ``stay`` are left, and the rest of our own go. ``moves`` says that the new version has the rows of the one before:
    its tags move with them, and all others stay.
    """

    stay: frozenset[str] = frozenset()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    moves: bool = False
