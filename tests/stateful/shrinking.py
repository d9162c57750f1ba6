"""Delta debugging: the shortest part of a list that still fails, found by leaving parts out (Zeller's ddmin)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def shortest(
    items: Sequence[Item], fails: Callable[[Sequence[Item]], bool], *, go_on: Callable[[], bool] = lambda: True
) -> list[Item]:
    """A part of ``items`` that fails, of which no single one can be left out; ``items`` must fail.

    It ends early, with what it has by then, when ``go_on`` says so. No part is tried twice.
    """
    found, tried = list(items), set[tuple[int, ...]]()
    numbers = list(range(len(found)))

    def still(chosen: list[int]) -> bool:
        key = tuple(chosen)
        if key in tried:
            return False
        tried.add(key)
        return fails([found[number] for number in chosen])

    size = max(1, len(numbers) // 2)
    while numbers and go_on():
        for start in range(0, len(numbers), size):
            rest = numbers[:start] + numbers[start + size :]
            if go_on() and still(rest):
                numbers = rest
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
            continue
        size = max(1, min(size, len(numbers) // 2))
    return [found[number] for number in numbers]
