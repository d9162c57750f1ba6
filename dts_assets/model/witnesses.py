"""Witnesses: a few transactions of a run by which two tellings of a stretch are compared.

Each transaction has a rank that follows from its GTID number alone. A run keeps the transactions that rank below all before
them in the run, and those that rank below all behind them: about 28 of a million. The lowest one of the stretch that two runs
share is kept by both, if one run ends and the other one begins with that stretch. So two tellings of a stretch can be compared
although neither run knows which stretch the other one has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

Witness: TypeAlias = tuple[int, int, int]
"""A GTID number, and the file and position at which the transaction begins: ``(17, 3, 4096)``."""

MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and multipliers of SplitMix64's last step (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators)."""

_MASK = (1 << 64) - 1


def rank_of(number: int) -> int:
    """Return the rank of a GTID number: no two numbers share one, and neighbours have ranks far apart."""
    for shift, multiplier in MIXING:
        number = ((number ^ (number >> shift)) * multiplier) & _MASK
    return number


def join_witnesses(*stretches: Iterable[Witness]) -> tuple[Witness, ...]:
    """Return the witnesses of stretches together, ascending: those that all their transactions would give.

    Where several stretches have a transaction, its place in the last of them counts.
    """
    places = {one[0]: one for stretch in stretches for one in stretch}
    ascending = sorted(places)
    kept = {*_lowest(ascending), *_lowest(reversed(ascending))}
    return tuple(places[number] for number in ascending if number in kept)


def _lowest(numbers: Iterable[int]) -> Iterator[int]:
    """Yield the numbers that rank below all before them."""
    lowest = _MASK + 1
    for number in numbers:
        if (rank := rank_of(number)) < lowest:
            lowest = rank
            yield number
