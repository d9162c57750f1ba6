"""AutomationConditions instead of the sensor that reads the ledger: what they ask for, tick by tick."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from dts_assets.defs.automation import CONDITION
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

    from tests.defs.projects import Project

START = datetime(2026, 1, 5, tzinfo=UTC)
ENTRIES = dg.AssetKey(["shop", "entries"])
CHANGELOG, SNAPSHOT = (dg.AssetKey(["shop", layer, "shopdb", "orders"]) for layer in ("changelog", "snapshot"))
FIRST, SECOND, THIRD = (f"2026-01-05-0{hour}:00" for hour in range(3))


class Clock:
    """Ticks of the conditions, with what happened between them."""

    def __init__(self, definitions: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self.definitions, self.instance = definitions, instance
        self.cursor: AssetDaemonCursor | None = None
        self.at = START

    def tick(self, hours: float) -> set[str]:
        """The windows that are asked for at ``hours`` past midnight: the same of the changelog and of the snapshot."""
        self.at = max(self.at + timedelta(seconds=30), START + timedelta(hours=hours))
        found = dg.evaluate_automation_conditions(
            self.definitions, self.instance, cursor=self.cursor, evaluation_time=self.at
        )
        self.cursor = found.cursor
        asked = found.get_requested_partitions(CHANGELOG)
        assert asked == found.get_requested_partitions(SNAPSHOT)
        return {str(window) for window in asked}

    def entries(self, window: str, *partitions: int) -> None:
        for partition in partitions:
            self._made(ENTRIES, f"p{partition:02d}|{window}")

    def tables(self, window: str) -> None:
        self._made(CHANGELOG, window)
        self._made(SNAPSHOT, window)

    def _made(self, key: dg.AssetKey, partition: str) -> None:
        self.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition))


@pytest.fixture
def clock(project: Project) -> Iterator[Clock]:
    """Two Kafka partitions, one table; conditions drive it."""
    project.configure(automation="conditions").register({TableId("shopdb", "", "orders"): [("id", "int", True)]})
    with dg.DagsterInstance.ephemeral() as instance:
        yield Clock(project.definitions(), instance)


def test_a_window_is_asked_for_exactly_when_every_kafka_partition_of_it_is_there(clock: Clock) -> None:
    assert clock.tick(0.5) == set()
    assert clock.tick(1.1) == set(), "the window has ended, its entries are not there"
    clock.entries(FIRST, 0)
    assert clock.tick(1.2) == set()
    clock.entries(FIRST, 1)
    assert clock.tick(1.3) == {FIRST}
    assert clock.tick(1.4) == set(), "asked for once"
    clock.tables(FIRST)
    assert clock.tick(1.5) == set()


def test_windows_become_ready_in_any_order(clock: Clock) -> None:
    clock.tick(0.5)
    clock.tick(2.1)
    clock.entries(SECOND, 0, 1)
    clock.entries(FIRST, 1)
    assert clock.tick(2.2) == {SECOND}
    clock.entries(FIRST, 0)
    assert clock.tick(2.3) == {FIRST}


def test_a_replay_of_any_window_propagates(clock: Clock) -> None:
    clock.tick(0.5)
    clock.tick(3.1)
    for window in (FIRST, SECOND, THIRD):
        clock.entries(window, 0, 1)
    assert clock.tick(3.2) == {FIRST, SECOND, THIRD}
    for window in (FIRST, SECOND, THIRD):
        clock.tables(window)
    assert clock.tick(3.3) == set()
    clock.entries(FIRST, 1)
    assert clock.tick(3.4) == {FIRST}, "the first window is not the latest"


def test_what_was_missing_when_it_was_switched_on_is_left_to_a_backfill(clock: Clock) -> None:
    clock.entries(FIRST, 0, 1)
    assert clock.tick(1.1) == set()
    clock.entries(FIRST, 1)
    assert clock.tick(1.2) == {FIRST}


def test_the_setting_exchanges_the_sensor_for_conditions(clock: Clock, project: Project) -> None:
    definitions = clock.definitions
    assert {one.name for one in definitions.sensors or ()} == {
        "shop_follow_source", "shop_watch_topic", "shop_automation",
    }  # fmt: skip
    conditions = {key: definitions.resolve_asset_graph().get(key).automation_condition for key in (CHANGELOG, SNAPSHOT)}
    assert {one.get_label() for one in conditions.values() if one is not None} == {CONDITION}
    assert definitions.resolve_asset_graph().get(ENTRIES).automation_condition is None
    dg.Definitions.validate_loadable(definitions)


def test_without_it_there_are_none(project: Project) -> None:
    project.register({TableId("shopdb", "", "orders"): [("id", "int", True)]})
    graph = project.graph()
    assert {graph.get(key).automation_condition for key in graph.get_all_asset_keys()} == {None}
