"""One table that fails, or that a person pauses, stands still; all others go on, and once resumed everything is equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.find_work import find_work
from dts_assets.flows.judged import judge_ledger
from dts_assets.flows.pauses import resume_tables
from dts_assets.model.ledger_rows import PausedBy
from dts_assets.store.files import TableWriter
from dts_assets.store.lake import Lake
from tests.flows.harness import Harness, table_id
from tests.flows.in_process import bench_in_process
from tests.flows.short import items, open_short, three_windows
from tests.flows.source import DATABASE, Message

ONE, TWO = table_id("one"), table_id("two")
NOW = datetime(2026, 1, 7, tzinfo=UTC)


@contextmanager
def broken(owner: Any, name: str, fails: Callable[..., bool], error: Exception | None = None) -> Iterator[None]:
    """A function raises an error whenever its arguments are such as ``fails`` says."""
    real = getattr(owner, name)

    def failing(*arguments: Any, **named: Any) -> Any:
        if fails(*arguments):
            raise error or KeyError("payload of a row")
        return real(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, failing)
        yield


def of_layer(layer: str, *names: str) -> Callable[..., bool]:
    """Calls whose first path, behind the lake itself, is of a layer of some tables."""
    return lambda _, path, *__: path[1] == layer and path[-1] in names


def writer_of(*names: str) -> Callable[..., bool]:
    folders = tuple(f"/changelog/{DATABASE}/{name}" for name in names)
    return lambda writer, *_: writer._target.location.endswith(folders)


PLACES: dict[str, tuple[Any, str, Callable[..., bool], str]] = {
    "the changelog is opened": (Lake, "evolve", of_layer("changelog", "two"), "changelog"),
    "the changelog is written": (TableWriter, "write", writer_of("two"), "changelog"),
    "the changelog's files are closed": (TableWriter, "close", writer_of("two"), "changelog"),
    "the changelog is committed": (Lake, "replace", of_layer("changelog", "two"), "changelog"),
    "the snapshot is planned": (Lake, "ensure", of_layer("snapshot", "two"), "snapshot"),
    "the snapshot is refreshed": (
        TableWriter,
        "write",
        lambda one, *_: "snapshot/bank/two" in one._target.location,
        "snapshot",
    ),
    "the snapshot is committed": (Lake, "replace", of_layer("snapshot", "two"), "snapshot"),
}


FIRST = ("the changelog is committed", "the snapshot is refreshed")
"""The places of ``make test``."""


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(three_windows(items("one"), items("two")).messages)


def opened(folder: Path, messages: list[Message]) -> Harness:
    return open_short(bench_in_process(folder, "paused"), folder / "capture", messages)


def of_rows(harness: Harness) -> dict[str, list[str]]:
    """All that does not name a run or a moment."""
    found = harness.everything(without=("run", "since"))
    return {name: rows for name, rows in found.items() if name != "lineages"}


@pytest.fixture(scope="module")
def undisturbed(messages: list[Message], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    harness = opened(tmp_path_factory.mktemp("undisturbed"), messages)
    harness.settle()
    return of_rows(harness)


@pytest.mark.parametrize(
    "place", [place if place in FIRST else pytest.param(place, marks=pytest.mark.long) for place in PLACES]
)
def test_a_table_that_fails_where(
    place: str, messages: list[Message], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    owner, name, fails, layer = PLACES[place]
    harness = opened(tmp_path, messages)
    with broken(owner, name, fails):
        harness.settle()
    ledger = harness.pipeline.ledger
    (paused,) = ledger.paused_tables()
    assert (paused.table, paused.layer, paused.by) == (TWO, layer, PausedBy.FAILURE)
    assert paused.reason.startswith("KeyError at ")
    assert "payload" not in "".join([paused.reason, *harness.lines])
    assert [[one.id for one in mark.paused] for mark in ledger.cuts()] == [[TWO]] * 3
    assert harness.rows("snapshot", DATABASE, "two") == []
    found = of_rows(harness)
    for kind in ("changelog", "snapshot"):
        assert found[f"{kind}.{DATABASE}.one"] == undisturbed[f"{kind}.{DATABASE}.one"]
    sentences = {judged.sentence for judged in judge_ledger(harness.pipeline) if judged.sentence}
    assert sentences == {f"without {TWO}, which stood still"}
    assert find_work(harness.pipeline).nothing

    resume_tables(harness.pipeline, [TWO])
    assert len(find_work(harness.pipeline).tables) == 3
    harness.settle()
    assert of_rows(harness) == undisturbed
    assert not [judged.sentence for judged in judge_ledger(harness.pipeline) if judged.sentence]
