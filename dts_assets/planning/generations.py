"""Generations: digests of everything that a stored row was computed from.

A generation is a digest of everything that decides the content: the inputs, the settings that shape it and the version of the
code. A row that is computed again from equal inputs gets an equal generation, so no row made from it becomes stale. Staleness is
never stored: it is computed by forming the inputs that a row would read now.
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
    """Return the text of an input in a row's ``inputs``: ``format=1f0c2a...``."""
    return f"{name}={generation_now}"


def changed_inputs(recorded: Iterable[str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the recorded inputs that have another generation now, or are gone."""
    changed = []
    for text in recorded:
        name, _, before = text.rpartition("=")
        if now.get(name, ABSENT) != before:
            changed.append(name)
    return tuple(changed)
