"""The oracle itself: its two ways of knowing the current rows agree, and its streams hold what they are made for."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.flows.history import WINDOWS, bank_history
from tests.flows.source import folded


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("long_set", [False, True])
def test_a_history_is_what_flow_tests_need(seed: int, long_set: bool) -> None:
    history = bank_history(seed, long_set=long_set)
    source = history.source
    assert folded(source.tables, source.changes) == history.final() == history.at(source.committed)
    assert 200 < len(source.changes) < 900
    assert {change.operation for change in source.changes} == {"insert", "update", "delete"}
    assert len({history.window_of(message.time) for message in source.messages}) == WINDOWS
    across = Counter(
        history.window_of(change.arrived) - history.window_of(first[change.partition, change.first_offset])
        for first in [{(one.partition, one.offset): one.time for one in source.messages}]
        for change in source.changes
    )
    assert across[1] > 0
    assert bool(across[2]) == long_set
    cuts = [end.cut for end in history.ends()]
    assert (cuts[1] is None) == long_set
    assert cuts[0] is not None
    assert cuts[2] is not None
    assert any(change.position > cuts[0] and history.window_of(change.arrived) == 0 for change in source.changes)
    pieces = {(change.position, change.table): set[int]() for change in source.changes}
    for change in source.changes:
        pieces[change.position, change.table].add(change.partition)
    assert any(len(partitions) > 1 for partitions in pieces.values())
