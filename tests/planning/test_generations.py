"""Generations: equal inputs give an equal text, anything else another one."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.planning.staleness import ABSENT, changed_inputs, generation, input_text

names = st.text(st.characters(exclude_characters="=\n", exclude_categories=["Cs"]), min_size=1)
hexes = st.integers(0, 15).map(lambda number: f"{number:016x}")
inputs = st.dictionaries(names, hexes, max_size=5)


@given(inputs)
def test_the_order_of_inputs_does_not_count(found: dict[str, str]) -> None:
    texts = [input_text(name, at) for name, at in found.items()]
    assert generation(texts, code_version="1") == generation(list(reversed(texts)), code_version="1")
    assert re.fullmatch("[0-9a-f]{16}", generation(texts, code_version="1"))


@given(inputs, inputs)
def test_other_inputs_or_other_code_are_another_generation(one: dict[str, str], other: dict[str, str]) -> None:
    texts, others = ([input_text(name, at) for name, at in found.items()] for found in (one, other))
    assert (generation(texts, code_version="1") == generation(others, code_version="1")) == (one == other)
    assert generation(texts, code_version="1") != generation(texts, code_version="2")


@given(inputs, inputs)
def test_an_input_has_changed_if_its_generation_is_another_or_gone(before: dict[str, str], now: dict[str, str]) -> None:
    recorded = [input_text(name, at) for name, at in before.items()]
    expected = {name for name, at in before.items() if now.get(name) != at}
    assert set(changed_inputs(recorded, now)) == expected


def test_an_input_that_was_not_there_has_changed_once_it_is() -> None:
    recorded = [input_text("raw:p00|2026-01-05-00:00", ABSENT)]
    assert changed_inputs(recorded, {}) == ()
    assert changed_inputs(recorded, {"raw:p00|2026-01-05-00:00": "ab"}) == ("raw:p00|2026-01-05-00:00",)


def test_a_name_may_hold_an_equals_sign() -> None:
    assert changed_inputs([input_text("a=b", "1")], {"a=b": "1"}) == ()
