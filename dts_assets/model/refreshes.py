"""Refreshes: readings of an open window, each of which takes the messages that have come since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_COMPACTED = "compacted-"
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Refresh:
    """A reading of a Kafka partition and window.

    It has the offset that it went up to, the generation of everything up to there, and the run whose folder has its files.
    """

    end_offset: int
    generation: str
    run: str


def reached(refreshes: Iterable[Refresh], generation: str, end_offset: int) -> bool:
    """Return whether rows of ``generation`` up to ``end_offset`` are still the beginning of a window.

    They are if one of its ``refreshes`` has that generation and went at least so far.
    """
    return any(one.generation == generation and one.end_offset >= end_offset for one in refreshes)


def runs_of(refreshes: Sequence[Refresh]) -> tuple[str, ...]:
    """Return the runs that have a part in the window, in offset order.

    There are none if the window was read in one go.
    """
    return tuple(dict.fromkeys(one.run for one in refreshes))


def run_of(path: str) -> str:
    """Return the run whose folder a data file lies in: ``r1`` for ``s3://lake/shop/entries/data/r1/0-ab.parquet``."""
    return path.rsplit("/", 2)[-2]


def compacted_name(paths: Iterable[str]) -> str:
    """Return the beginning of a compacted file's name: a digest of the files that went in.

    A reader that knows these files can tell by the name that no row has changed.
    """
    return _COMPACTED + hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:_DIGITS]


def is_made_of(path: str, paths: Iterable[str]) -> bool:
    """Return whether a file holds the rows of exactly these files."""
    return name_of(path) == compacted_name(paths)


def name_of(path: str) -> str:
    """Return the beginning of a compacted file's name that :func:`compacted_name` gave it, the whole name of another file."""
    name = path.rsplit("/", 1)[-1]
    return name[: len(_COMPACTED) + _DIGITS] if name.startswith(_COMPACTED) else name
