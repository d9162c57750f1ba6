"""Windows that are read while they are still open: each reading takes what has come since, and leaves what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_COMPACTED = "compacted-"


@dataclass(frozen=True, slots=True)
class Refresh:
    """One reading of a Kafka partition and window: the offset it went up to, the generation of everything up to there, and the
    run whose folder has its files."""

    end_offset: int
    generation: str
    run: str


def reached(refreshes: Iterable[Refresh], generation: str, end_offset: int) -> bool:
    """Whether what was read up to ``end_offset``, when all was of ``generation``, is still the beginning of what is there."""
    return any(one.generation == generation and one.end_offset >= end_offset for one in refreshes)


def runs_of(refreshes: Sequence[Refresh]) -> tuple[str, ...]:
    """The runs that have a part in the window, in the order of their offsets; none where it was read in one go."""
    return tuple(dict.fromkeys(one.run for one in refreshes))


def run_of(path: str) -> str:
    """The run whose folder a data file lies in."""
    return path.rsplit("/", 2)[-2]


def compacted_name(paths: Iterable[str]) -> str:
    """How the name of a file begins that holds the rows of others: whoever knows these can tell that nothing else changed."""
    return _COMPACTED + hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:32]


def is_made_of(path: str, paths: Iterable[str]) -> bool:
    """Whether a file holds the rows of exactly these files."""
    name = path.rsplit("/", 1)[-1]
    return name.startswith(_COMPACTED) and name.startswith(compacted_name(paths))
