"""Entry sets that a cell leaves unfinished, and that the next cell of its Kafka partition takes over."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenSet:
    """An entry set of which some fragments have come, at ``offsets`` in the order of their indexes.

    ``collecting`` says that nothing has come between; else the set was interrupted. ``abandoned`` says that the producer gave the
    number of its next fragment to another message, and ``seen_to`` is the greatest number that came after it (-1: none).
    """

    shard: str
    total: int
    offsets: tuple[int, ...]
    collecting: bool = True
    abandoned: bool = False
    seen_to: int = -1


def open_sets_text(sets: Iterable[OpenSet]) -> str:
    """Return a digest of sets (12 hex digits), in any order."""
    texts = sorted(repr(one) for one in sets)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
