"""Generations: what a stored row was computed from, as one short text.

A generation is a digest of everything that decides the content: the inputs, the settings that shape it and the version of the
code. Computing a thing again from the same inputs gives the same generation, so nothing after it becomes stale; and whether a
row is stale is computed by forming the inputs it would read now, never stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

ABSENT = "absent"
"""The generation of an input that does not exist yet."""


def generation(inputs: Iterable[str], *, code_version: str) -> str:
    """Return a digest (16 hex digits) of the inputs, in any order, and the code version."""
    text = "\n".join([code_version, *sorted(inputs)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def input_text(name: str, generation_now: str) -> str:
    """Return the text of an input in a row's ``inputs``: ``name=generation``."""
    return f"{name}={generation_now}"


def changed_inputs(recorded: Iterable[str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of recorded inputs whose generation is another now, or that are gone."""
    changed = []
    for text in recorded:
        name, _, before = text.rpartition("=")
        if now.get(name, ABSENT) != before:
            changed.append(name)
    return tuple(changed)
