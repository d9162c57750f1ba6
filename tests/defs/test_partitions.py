"""Partitions as Dagster knows them, and back: keys, ranges and mappings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.execution.asset_backfill import AssetBackfillData
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dts_assets.defs.partitions import (
    RANGE_END,
    RANGE_START,
    cell_partitions,
    cron_of,
    span_of,
    span_tags,
    window_partitions,
    window_tags,
    windows_of,
)
from dts_assets.errors import NothingFoundError
from dts_assets.model.spans import Cell, Span
from dts_assets.model.windows import WindowGrid
from dts_assets.settings import WindowSettings

if TYPE_CHECKING:
    from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetNode

    from tests.defs.projects import Project

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
GRID = WindowGrid(HOUR, START)


# Windows

CRONS = {
    "1m": "* * * * *", "2m": "*/2 * * * *", "15m": "*/15 * * * *", "30m": "*/30 * * * *", "1h": "0 * * * *",
    "60m": "0 * * * *", "2h": "0 */2 * * *", "6h": "0 */6 * * *", "12h": "0 */12 * * *", "1d": "0 0 * * *",
    "24h": "0 0 * * *",
}  # fmt: skip


def window_settings(every: str) -> WindowSettings:
    return TypeAdapter(WindowSettings).validate_python({"every": every, "start": "2026-01-05T00:00Z"})


@pytest.mark.parametrize(("every", "cron"), CRONS.items())
def test_the_cron_schedule_of_a_window_length(every: str, cron: str) -> None:
    assert cron_of(window_settings(every).every) == cron


def test_every_length_that_the_configuration_takes_has_a_cron_schedule() -> None:
    taken = []
    for minutes in range(1, 1441):
        try:
            taken.append(window_settings(f"{minutes}m").every)
        except ValidationError:
            continue
    assert len(taken) == 12 + 7
    assert len({cron_of(every) for every in taken}) == len(taken)


@pytest.mark.parametrize("every", [7 * MINUTE, 45 * MINUTE, 90 * MINUTE])
def test_a_length_that_no_cron_schedule_can_say_is_refused(every: timedelta) -> None:
    with pytest.raises(ValueError, match="minutes that divide an hour"):
        cron_of(every)


@pytest.mark.parametrize("every", ["5m", "15m", "1h", "2h", "6h", "1d"])
def test_dagster_has_the_windows_of_the_grid_under_their_keys(project: Project, every: str) -> None:
    subscription = project.configure(every=every, end="2026-01-08T00:00Z").subscription
    partitions, grid = window_partitions(subscription), subscription.grid
    windows = list(grid.until(datetime(2027, 1, 1, tzinfo=UTC)))
    assert partitions.get_partition_keys() == [window.key for window in windows]
    for window in (windows[0], windows[-1]):
        found = partitions.time_window_for_partition_key(window.key)
        assert (found.start, found.end) == (window.start, window.end)
        assert windows_of([window.key], grid) == (window,)


def test_windows_that_go_on_for_ever_end_with_the_last_one_that_is_over(project: Project) -> None:
    partitions = window_partitions(project.configure(end="null").subscription)
    keys = partitions.get_partition_keys(current_time=START + 2.5 * HOUR)
    assert keys == ["2026-01-05-00:00", "2026-01-05-01:00"]


def test_windows_come_back_in_order() -> None:
    assert windows_of(["2026-01-05-03:00", "2026-01-05-01:00"], GRID) == (GRID.at(1), GRID.at(3))


# Cells


def test_a_cell_is_written_with_its_kafka_partition_first(project: Project) -> None:
    keys = cell_partitions(project.subscription).get_partition_keys()
    assert keys[0] == "p00|2026-01-05-00:00"
    assert sorted(keys) == [str(Cell(partition, GRID.at(number))) for partition in range(2) for number in range(3)]


def test_more_kafka_partitions_leave_the_keys_of_the_first_ones_alone(project: Project) -> None:
    few = cell_partitions(project.subscription).get_partition_keys()
    many = cell_partitions(project.configure(partitions=12).subscription).get_partition_keys()
    assert set(few) < set(many)
    assert "p11|2026-01-05-02:00" in many


spans = st.tuples(
    st.sets(st.integers(0, 12), min_size=1, max_size=4), st.sets(st.integers(0, 12), min_size=1, max_size=4)
).map(lambda pair: Span(tuple(sorted(pair[0])), tuple(GRID.at(number) for number in sorted(pair[1]))))


@given(spans)
def test_a_span_comes_back_from_the_keys_of_its_cells_in_any_order(span: Span) -> None:
    keys = [str(cell) for cell in span.cells()]
    assert span_of(keys, GRID) == span_of(keys[::-1], GRID) == span_of(keys + keys[:1], GRID) == span


@given(spans.filter(lambda span: len(span.windows) > 1 and len(span.kafka_partitions) > 1), st.data())
def test_what_is_no_rectangle_is_refused(span: Span, data: st.DataObject) -> None:
    keys = [str(cell) for cell in span.cells()]
    missing = data.draw(st.sampled_from(keys))
    rest = [key for key in keys if key != missing]
    for found in (rest, [*rest, rest[0]]):  # one given twice does not stand in for the one that is missing
        with pytest.raises(ValueError, match="no rectangle"):
            span_of(found, GRID)


@pytest.mark.parametrize("key", ["p00", "p00|2026-01-05-00:30", "2026-01-05-00:00", "x|2026-01-05-00:00"])
def test_a_key_that_names_no_cell_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"is not|does not match"):
        span_of([key], GRID)


def test_tags_ask_for_a_rectangle_that_dagster_reads_as_the_same(project: Project) -> None:
    partitions = cell_partitions(project.configure(partitions=4).subscription)
    span = Span((1, 2), (GRID.at(0), GRID.at(1)))
    tags = span_tags(span)
    assert tags == {RANGE_START: "p01|2026-01-05-00:00", RANGE_END: "p02|2026-01-05-01:00"}
    keys = partitions.get_partition_keys_in_range(dg.PartitionKeyRange(tags[RANGE_START], tags[RANGE_END]))
    assert span_of([str(key) for key in keys], GRID) == span


def test_tags_ask_for_windows_that_follow_each_other(project: Project) -> None:
    tags = window_tags((GRID.at(0), GRID.at(1), GRID.at(2)))
    partitions = window_partitions(project.subscription)
    keys = partitions.get_partition_keys_in_range(dg.PartitionKeyRange(tags[RANGE_START], tags[RANGE_END]))
    assert windows_of(list(keys), GRID) == (GRID.at(0), GRID.at(1), GRID.at(2))


# What reads what


def upstream(project: Project, downstream: list[str], upstream_of: list[str], key: str) -> list[str]:
    """The partition keys that Dagster says one partition of an asset reads."""
    graph = project.graph()
    down, up = graph.get(dg.AssetKey(["shop", *downstream])), graph.get(dg.AssetKey(["shop", *upstream_of]))
    down_partitions, up_partitions = partitions_of(down), partitions_of(up)
    mapping = graph.get_partition_mapping(down.key, parent_asset_key=up.key)
    result = mapping.get_upstream_mapped_partitions_result_for_partitions(
        down_partitions.empty_subset().with_partition_keys([key]),
        down_partitions,
        up_partitions,
        current_time=datetime(2027, 1, 1),
    )
    assert not result.required_but_nonexistent_subset.get_partition_keys()
    return sorted(str(one) for one in result.partitions_subset.get_partition_keys())


def partitions_of(node: BaseAssetNode) -> dg.PartitionsDefinition[str]:
    assert node.partitions_def is not None
    return node.partitions_def


def with_orders(project: Project) -> Project:
    from dts_assets.model.tables import TableId

    return project.register({TableId("shopdb", "", "orders"): [("id", "int", True)]})


def test_a_window_of_a_changelog_reads_every_kafka_partition_of_its_window(project: Project) -> None:
    found = upstream(
        with_orders(project.configure(partitions=3)), ["changelog", "shopdb", "orders"], ["entries"], "2026-01-05-01:00"
    )
    assert found == [f"p0{partition}|2026-01-05-01:00" for partition in range(3)]


def test_entries_depend_on_raw_of_their_own_window(project: Project) -> None:
    assert upstream(project, ["entries"], ["raw_envelopes"], "p01|2026-01-05-01:00") == ["p01|2026-01-05-01:00"]


@pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning")  # Dagster's own call
def test_a_backfill_of_raw_and_entries_asks_for_the_chosen_partitions_and_no_others(project: Project) -> None:
    keys = ["p00|2026-01-05-00:00", "p01|2026-01-05-01:00"]
    assets = [dg.AssetKey(["shop", name]) for name in ("raw_envelopes", "entries")]
    with dg.DagsterInstance.ephemeral() as instance:
        backfill = AssetBackfillData.from_asset_partitions(
            asset_graph=project.graph(), partition_names=keys, asset_selection=assets, dynamic_partitions_store=instance,
            backfill_start_timestamp=datetime(2027, 1, 1).timestamp(), all_partitions=False,
        )  # fmt: skip
    asked = {
        (str(one.asset_key.path[-1]), one.partition_key) for one in backfill.target_subset.iterate_asset_partitions()
    }
    assert asked == {(name, key) for name in ("raw_envelopes", "entries") for key in keys}


def test_a_window_of_a_snapshot_reads_that_of_its_changelog(project: Project) -> None:
    found = upstream(
        with_orders(project), ["snapshot", "shopdb", "orders"], ["changelog", "shopdb", "orders"], "2026-01-05-01:00"
    )
    assert found == ["2026-01-05-01:00"]


def test_keys_in_time_order_are_windows_that_meet(project: Project) -> None:
    keys = window_partitions(project.subscription).get_partition_keys()
    assert len(keys) == 3
    assert all(one.end == other.start for one, other in pairwise(windows_of(list(keys), GRID)))


@pytest.mark.parametrize("of", [span_of, windows_of])
def test_a_range_that_ends_before_it_begins_is_named_and_no_empty_success(of: Callable[..., object]) -> None:
    with pytest.raises(NothingFoundError, match="it ends before it begins"):
        of([], GRID)
