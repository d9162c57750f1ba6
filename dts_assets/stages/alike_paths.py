"""Paths of values that are equal for shards which had the same statements, each at its own time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dts_assets.model.tables import TableId
from dts_assets.stages.value_paths import ValuePath, ValueStep
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.schema_changes import ColumnModified

_NO_TABLE = TableId("", "", "")

PathKey = tuple[str | None, ValueStep | None, int, str]
"""The origin of a path, its first step, the number of steps behind it, and its own type."""


@dataclass(slots=True)
class AlikePaths:
    """Keys of paths, equal exactly if the paths do the same to values.

    Paths of one column share a chain of steps, which is looked through once.
    """

    _steps: dict[tuple[int, ValueStep], int] = field(default_factory=dict)
    _chains: dict[int, tuple[Sequence[ValueStep], list[int]]] = field(default_factory=dict)

    def key(self, path: ValuePath) -> PathKey:
        """Return the key of a path."""
        if id(path.chain) not in self._chains:
            numbers = [0]
            for step in path.chain:
                numbers.append(self._steps.setdefault((numbers[-1], _shared(step)), len(self._steps) + 1))
            self._chains[id(path.chain)] = path.chain, numbers  # with the chain, so that no other one gets its id
        numbers = self._chains[id(path.chain)][1]
        return path.origin, None if path.first is None else _shared(path.first), numbers[path.count], path.own_type


def _shared(step: ValueStep) -> ValueStep:
    """Return a step without what values do not depend on."""
    change = step.change
    if isinstance(change, ColumnModified):
        return replace(step, change=replace(change, table=_NO_TABLE), time=None)
    time = step.time if change.fill is Fill.NOW else None
    return replace(step, change=replace(change, table=_NO_TABLE, after=None), time=time)
