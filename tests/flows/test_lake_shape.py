"""The topics that a lake keeps: lakes of earlier versions, processes that add at once, and one that was killed in between."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dts_assets.errors import IncompatibleLakeError
from dts_assets.errors.topics import OtherTopicsError
from dts_assets.flows.lake_shape import LakeShape, Topics
from dts_assets.store.lake import Lake

A, B, C = ("a", 2), ("b", 1), ("c", 1)


class Facts:
    """The properties of a lake's table, where the first writer of each wins."""

    def __init__(self, **facts: str) -> None:
        self.kept = dict(facts)

    def table(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(properties=dict(self.kept))

    ensure = table

    def remember(self, *_: object, name: str, value: str) -> None:
        self.kept.setdefault(name, value)


def hour(number: int) -> datetime:
    return datetime(2026, 1, 5, number, tzinfo=UTC)


def shape(facts: Facts, topics: Topics) -> LakeShape:
    partitions = sum(number for _, number in topics)
    names = tuple(name for name, _ in topics)
    return LakeShape(cast("Lake", facts), "shop", {"partitions": partitions}, names, ())


def checked(facts: Facts, topics: Topics, *, first: datetime | None = None) -> datetime | None:
    one = shape(facts, topics)
    one.check_settings()
    one.check_topics(topics, lambda _: first)
    return one.first_window()


def old_lake(partitions: int) -> Facts:
    facts: dict[str, Any] = {"dts-assets.shape": json.dumps({"partitions": partitions})}
    return Facts(**facts, **{"dts-assets.first-window": hour(5).isoformat()})


def test_a_lake_that_knows_no_topics_takes_those_of_its_next_run_and_then_more() -> None:
    facts = old_lake(3)
    assert checked(facts, (A, B), first=hour(1)) == hour(5), "its first window is known"
    assert checked(facts, (A, B, C), first=hour(2)) == hour(2)
    with pytest.raises(OtherTopicsError):
        checked(facts, (A, B))


def test_a_lake_that_knows_no_topics_takes_no_more_partitions() -> None:
    with pytest.raises(IncompatibleLakeError, match="partitions"):
        checked(old_lake(2), (A, B))


def test_a_process_killed_between_two_facts_leaves_what_the_next_one_completes() -> None:
    facts = old_lake(2)
    checked(facts, (A,))
    facts.remember(name="dts-assets.first-window.1", value=hour(3).isoformat())
    assert checked(facts, (A, B), first=hour(4)) == hour(3)


def test_of_two_processes_that_add_other_topics_at_once_one_is_refused() -> None:
    facts = Facts()
    checked(facts, (A,))
    one = shape(facts, (A, B))
    one.check_settings()

    def meanwhile(_: range) -> None:
        facts.remember(name="dts-assets.topic.1", value=json.dumps(C))

    with pytest.raises(OtherTopicsError, match=r"built with a \(2\), c \(1\)"):
        one.check_topics((A, B), meanwhile)
