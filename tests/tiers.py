"""The tiers of tests, and the parts of ``make test-all``.

``make test`` runs the first tier; ``make test-more`` runs what is marked ``more``, of a test of flows with many cases some;
``make test-all`` runs every test with full repetitions, those marked ``long`` among them, in numbered parts. A variable in the
environment, ``DTS_ASSETS_TESTS`` (``more`` or ``all``), chooses the tier. It is no option, because counts of repetitions are read
where tests are defined, and because processes that tests start have to know the tier, too.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

Value = TypeVar("Value")

FIRST, MORE, REST, LONG, MYSQL = "first", "more", "rest", "long", "mysql"
"""Each test belongs to one of these: ``make test``, ``make test-more``, ``make test-all`` alone (two of them), ``make mysql``.

Those of the rest run in ``make test-all`` as if they were marked ``more``.
"""

MOST_CASES = 4
"""So many cases of one test of flows run in ``make test-more``: a case makes a lake, which takes three seconds."""

EVERYTHING = "all"
TIER = os.environ.get("DTS_ASSETS_TESTS") or FIRST
ALL = TIER == EVERYTHING

if TIER not in (FIRST, MORE, EVERYTHING):
    raise pytest.UsageError(f"DTS_ASSETS_TESTS={TIER} is no tier: it is more or all, or it is not set")


def times(few: int, many: int) -> int:
    """Return how often something is repeated: ``few`` in ``make test``, ``many`` in ``make test-all``."""
    return many if ALL else few


def chosen(values: Sequence[Value], few: int) -> Sequence[Value]:
    """Return what a test is repeated with: the first ``few`` of the values in ``make test``, all in ``make test-all``."""
    return values if ALL else values[:few]


def examples(count: int) -> settings:
    """Return the setting of a property test: ``count`` examples in ``make test-all``, a tenth in ``make test``, at least ten."""
    return settings(max_examples=times(min(count, max(10, count // 10)), count))


def in_time(seconds: float, most: float) -> bool:
    """Whether something took less than ``most`` seconds. Only ``make test-all`` asks: a busy machine is no mistake."""
    return not ALL or seconds < most


def tier_of(marks: Collection[str]) -> str:
    """Return the tier of a test that has these marks."""
    return next((tier for tier in (MYSQL, LONG, MORE) if tier in marks), FIRST)


def tiers_of(items: Sequence[pytest.Item]) -> list[str]:
    """Return the tier of each test, in the order in which they were collected.

    ``@pytest.mark.more(after=2)`` marks the cases of a test after its first two. Of many cases of a test of flows some are in the
    second tier, chosen by their names, and the others are the rest.
    """
    found, cases, more = list[str](), Counter[str](), dict[str, list[int]]()
    for number, item in enumerate(items):
        marks = {mark.name: mark for mark in reversed(list(item.iter_markers()))}
        function = item.nodeid.partition("[")[0]
        if tier_of(marks.keys() - {MORE}) == FIRST and MORE in marks:
            cases[function] += 1
            if cases[function] <= marks[MORE].kwargs.get("after", 0):
                del marks[MORE]
        found.append(tier_of(marks.keys()))
        if found[-1] == MORE and function.startswith("tests/flows/"):
            more.setdefault(function, []).append(number)
    for some in more.values():
        by_name = sorted(some, key=lambda number: crc32(items[number].nodeid.encode()))
        for number in by_name[MOST_CASES:]:
            found[number] = REST
    return found


_OF_A_MODULE = re.compile(r"^pytestmark = (.*(?:\n    .*|\n\])*)", re.M)
_MARK = re.compile(r"pytest\.mark\.(\w+)")


def marks_of_module(text: str) -> set[str]:
    """Return the marks that the text of a module gives to all of its tests, without importing it."""
    assigned = _OF_A_MODULE.search(text)
    return set(_MARK.findall(assigned.group(1))) if assigned else set()


def may_hold(path: Path, tier: str) -> bool:
    """Whether a module of tests may have tests of a tier, by its text: importing all of them takes half a minute."""
    text = path.read_text("utf-8")
    whole = tier_of(marks_of_module(text))
    if whole != FIRST:
        return whole == tier or (tier == LONG and whole == MORE and "mark.long" in text)
    return tier == FIRST or f"mark.{tier}" in text


@dataclass(frozen=True, slots=True)
class Part:
    """A part of ``make test-all``: the tests of some rooms, all those that are long or all others."""

    number: int
    title: str
    rooms: tuple[str, ...]
    """Beginnings of paths. A test belongs to the part that has the longest one."""
    is_long: bool = False
    """Long tests run one after the other: they start whole pipelines."""


def _flows(letters: str) -> tuple[str, ...]:
    return tuple(f"tests/flows/test_{letter}" for letter in letters)


PARTS = (
    Part(1, "values, decisions and stores", ("tests/",)),
    Part(2, "flows, first half", _flows("abcdefghijk")),
    Part(3, "flows, second half", ("tests/flows/",)),
    Part(4, "the laboratory, and mutated messages", ("tests/dts_emulator/", "tests/soak/")),
    Part(5, "long: flows, the laboratory, command line", ("tests/",), is_long=True),
    Part(6, "long: live pipelines, years, databases and clusters",
         ("tests/live/", "tests/year/", "tests/e2e/", "tests/remote/"), is_long=True),
)  # fmt: skip
"""Each takes at most two hours on two cores."""


def part_of(path: str, *, is_long: bool) -> Part:
    """Return the part of ``make test-all`` that a test of a file belongs to, such as ``tests/flows/test_values.py``."""
    fitting = [
        (len(room), part) for part in PARTS if part.is_long is is_long for room in part.rooms if path.startswith(room)
    ]
    return max(fitting, key=lambda pair: pair[0])[1]
