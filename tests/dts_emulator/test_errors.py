"""Errors of the laboratory are drawn in one tree, and each says a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dts_emulator import errors

LOG = Path("logs/daemon.log")

EXAMPLES = (
    errors.MissingExtra("pymysql"),
    errors.ServerUnavailable("MariaDB did not start", LOG),
    errors.BrokerUnavailable("Kafka has ended"),
    errors.DecodingFailed("table public.notes: MERGE", 20),
    errors.UnsupportedSource("a column of a type that cannot be read", "mysql-bin.000001", 4),
    errors.NoSuchMoment("0-1-7", "the server has not come there yet"),
    errors.ReplayFailed("0-1-7", "MariaDB error 1146"),
    errors.NotACapture(Path("capture"), "there is no Parquet file in it"),
    errors.NoRoomForFault("drop"),
    errors.FolderTaken(Path("live")),
    errors.NotASuite(Path("suite"), "there is no suite.json"),
    errors.NotAResult(Path("rows/d.t.jsonl"), 3, "an object of JSON is expected"),
    errors.ChildEnded("daemon", code=-9, log=LOG, last_lines=("killed",)),
    errors.ChildNotReady("daemon", seconds=5, log=LOG, last_lines=("waiting",)),
)


def every_class(root: type[errors.EmulatorError] = errors.EmulatorError) -> Iterator[type[errors.EmulatorError]]:
    for child in root.__subclasses__():
        yield child
        yield from every_class(child)


def test_all_errors_of_the_laboratory_stand_in_one_module_and_have_an_example() -> None:
    assert {type(error) for error in EXAMPLES} == set(every_class())
    assert {cls.__module__ for cls in every_class()} == {errors.__name__}


@pytest.mark.parametrize("cls", list(every_class()), ids=lambda cls: cls.__name__)
def test_the_drawn_tree_shows_every_class_once(cls: type[errors.EmulatorError]) -> None:
    assert [line for line in (errors.__doc__ or "").splitlines() if f" {cls.__name__} " in line]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_says_its_facts(error: errors.EmulatorError) -> None:
    facts = [value for name, value in vars(error).items() if name not in ("code", "last_lines", "seconds")]
    assert facts
    assert all(str(fact) in str(error) for fact in facts)
    assert "object at" not in str(error)


def test_the_end_of_a_log_stands_below_the_sentence() -> None:
    *_, ended, waiting = map(str, EXAMPLES)
    assert ended == "daemon has ended by signal 9; its log is logs/daemon.log\n    killed"
    assert waiting.splitlines()[1] == "    waiting"
