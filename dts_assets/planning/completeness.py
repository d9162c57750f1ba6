"""How complete a cell and a window are known to be, from what was found wrong with them.

Offsets, the ``ps`` header and whole entry sets carry a cell to ``observed``: nothing that arrived was lost on the way. The
stronger levels need transactions and GTIDs over the union of Kafka partitions, and are not awarded yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from dts_assets.model.problems import Completeness, Problem, ProblemCode

_LOSSES = frozenset({ProblemCode.WAITING, ProblemCode.QUARANTINED, ProblemCode.GAP, ProblemCode.UNENDED})


def completeness_of_cell(problems: Iterable[Problem]) -> Completeness:
    """``incomplete`` if any problem means that messages are missing, else ``observed``."""
    lost = any(problem.code in _LOSSES for problem in problems)
    return Completeness.INCOMPLETE if lost else Completeness.OBSERVED


def completeness_of_window(cells: Iterable[Completeness]) -> Completeness:
    """The weakest of a window's cells."""
    return min(cells, key=lambda level: level.rank)
