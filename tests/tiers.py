"""The two tiers of tests: ``make test`` repeats less and leaves out what is marked ``long``; ``make test-all`` runs everything.

``DTS_ASSETS_TESTS=all`` in the environment chooses the second tier. It is a variable and no option, because counts of
repetitions are read where tests are defined, and because processes that tests start have to know the tier, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

Value = TypeVar("Value")

ALL = os.environ.get("DTS_ASSETS_TESTS") == "all"


def times(few: int, many: int) -> int:
    """Return how often something is repeated: ``few`` in ``make test``, ``many`` in ``make test-all``."""
    return many if ALL else few


def chosen(values: Sequence[Value], few: int) -> Sequence[Value]:
    """Return what a test is repeated with: the first ``few`` of the values in ``make test``, all in ``make test-all``."""
    return values if ALL else values[:few]


def examples(count: int) -> settings:
    """Return the setting of a property test: ``count`` examples in ``make test-all``, a tenth in ``make test``, at least ten."""
    return settings(max_examples=times(min(count, max(10, count // 10)), count))
