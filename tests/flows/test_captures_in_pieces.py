"""Every capture of the tests in pieces: its tables, types, rows and row hashes are those of one run.

The pieces are windows, random rectangles, and runs that end at each of their commits. No test here needs a JVM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.errors.windows import NotReadyError
from dts_assets.flows.known_tables import registered_columns
from dts_assets.model.windows import Window
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND
from tests.flows.source import Message, write_capture
from tests.versions.captures import CASES, ENVIRONMENT, Case

WINDOWS = 3
FEW = ("altered", "scenarios of canal-json", "scenarios of dts-protobuf")
COMMITS = ("replace_raw_windows", "replace_table_shapes", "replace_windows", "replace_window_tables", "replace_cuts")

NAMES = [pytest.param(name, marks=pytest.mark.more if name in FEW else pytest.mark.long) for name in CASES]


class Stopped(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def _spread(messages: Sequence[Message]) -> list[Message]:
    """Messages of one window over three: those of each Kafka partition in their order."""
    counts, seen = Counter(one.partition for one in messages), Counter[int]()
    found = []
    for one in messages:
        window = seen[one.partition] * WINDOWS // counts[one.partition]
        seen[one.partition] += 1
        found.append(replace(one, time=border(window) + (one.partition + seen[one.partition]) * SECOND))
    return found


def _keyed(settings: Any) -> Any:
    """Settings with the values of the variables that they name, as a loaded file has them."""
    if isinstance(settings, dict):
        return {name: _keyed(value) for name, value in settings.items()}
    if isinstance(settings, str) and settings.startswith("${"):
        return ENVIRONMENT[settings[2:-1]]
    return settings


class Lakes:
    """Lakes of one capture, each with a name of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        self._case: Case = CASES[name]()
        self._folder = folder
        messages = [one for piece in self._case.pieces for one in piece]
        if name.startswith("scenarios"):
            messages = _spread(messages)
        self._capture = self._case.capture or folder / "capture"
        if self._case.capture is None:
            write_capture(self._capture, messages)
        self._bench: Bench = bench_in_process(folder, "pieces")

    def open(self, name: str) -> Harness:
        settings = dict(_keyed(dict(self._case.settings)))
        window = settings.pop("window", {})
        if self._case.capture is None:
            window = {"end": border(WINDOWS)}
        lake = self._folder / name
        lake.mkdir(exist_ok=True)
        for file, content in self._case.extra.items():
            (lake / file).write_bytes(content)
        if "schema" in settings:
            settings["schema"] = lake / settings["schema"]
        return self._bench.open(self._capture, name=name, window=window, **settings)


def _facts(harness: Harness) -> dict[str, Any]:
    """All that must not depend on the pieces."""
    tables = {
        table: {column.name: (column.type, column.own_types, column.is_key) for column in columns}
        for table, columns in registered_columns(harness.pipeline).items()
    }
    rows = harness.everything(without=("run", "generation", "inputs", "chain", "made_by", "code_version"))
    hashes = {
        (row.window_start, row.kafka_partition, row.table): row.row_hash
        for row in harness.pipeline.ledger.window_tables()
    }
    layers = {name: some for name, some in rows.items() if "." in name}
    return {"tables": tables, "hashes": hashes, "paused": harness.pipeline.ledger.paused_tables(), **layers}


def _windows(harness: Harness) -> Iterator[tuple[Window, ...]]:
    end = harness.pipeline.settings.window.end
    assert end is not None, "the capture has an end"
    yield from ((window,) for window in harness.pipeline.grid.until(end))


def _steps(harness: Harness, windows: tuple[Window, ...]) -> tuple[Callable[[], object], ...]:
    span = replace(harness.span(0), windows=windows)
    return lambda: harness.raw_of(span), lambda: harness.entries_of(span), lambda: harness.tables_of(windows)


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_in_pieces_has_the_tables_of_one_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes = Lakes(name, tmp_path)
    whole = lakes.open("whole")
    whole.settle()
    expected = _facts(whole)
    assert expected["tables"], "the capture has no table"
    for way, work in (("windows", _one_by_one), ("rectangles", _rectangles), ("stopped", _stopped(monkeypatch))):
        work(lakes.open(way))
        harness = lakes.open(way)
        harness.settle()
        found = _facts(harness)
        for fact, value in expected.items():
            assert found[fact] == value, (way, fact)
        assert found.keys() == expected.keys(), way


def _one_by_one(harness: Harness) -> None:
    for windows in _windows(harness):
        for step in _steps(harness, windows):
            step()


def _rectangles(harness: Harness) -> None:
    random, every = Random(7), [window for (window,) in _windows(harness)]
    for _ in range(12):
        first, last = sorted(random.choices(range(len(every)), k=2))
        low, high = sorted(random.choices(harness.pipeline.kafka_partitions, k=2))
        span = replace(harness.span(0), windows=tuple(every[first : last + 1]))
        span = replace(span, kafka_partitions=tuple(range(low, high + 1)))
        try:
            match random.randrange(3):
                case 0:
                    harness.raw_of(span)
                case 1:
                    harness.entries_of(span)
                case _:
                    harness.tables_of(span.windows)
        except NotReadyError:
            pass


def _stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[[Harness], None]:
    """Each step of each window ends behind its first commit, then behind its second one, until it has no more."""

    def work(harness: Harness) -> None:
        for windows in _windows(harness):
            for step in _steps(harness, windows):
                commits = 1
                while _ends_behind(step, commits, monkeypatch):
                    commits += 1
                assert commits > 1, "the step has no commit"

    return work


def _ends_behind(step: Callable[[], object], commits: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a step that ends behind so many commits, and return whether it came so far."""
    seen = 0

    def stopping(original: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            done = original(*args, **kwargs)
            seen += 1
            if seen == commits:
                raise Stopped
            return done

        return instead

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "replace", stopping(Lake.replace))
        for name in COMMITS:
            patch.setattr(Ledger, name, stopping(getattr(Ledger, name)))
        try:
            step()
        except Stopped:
            return True
    return False
