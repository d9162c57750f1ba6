"""The commands as a user types them, on lakes of every recorded capture, every scenario, and every type.

No command may show a stack, whatever the lake holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import pytest

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import open_pipeline
from dts_assets.settings import load_settings
from tests.e2e.every_command import TRACEBACK, Ended, commands_of, each_command, typed
from tests.e2e.every_lake import LONGEST_NAME, MakeTopic, Project, Topic, recorded_topics, scenario_topics
from tests.e2e.every_type import type_topics
from tests.made_up_format.place import SITE_PACKAGES
from tests.tiers import ALL
from tests.wire.scenarios import scenarios

pytestmark = [pytest.mark.more, pytest.mark.spark, pytest.mark.timeout(1800)]

TOPICS: Mapping[str, MakeTopic] = {**recorded_topics(), **scenario_topics(), **type_topics()}
TYPED = "dts_protobuf_insert_update_delete"
"""The subscription whose commands are typed one by one, each in a process of its own."""

_ALWAYS = (TYPED, "toy_lines_puts_drops_and_a_statement")
_SCENARIOS = [name for name in scenario_topics() if ALL or name in _ALWAYS or not crc32(name.encode()) % 4]
NAMES = tuple(name for name in TOPICS if name not in scenario_topics() or name in _SCENARIOS)
"""The subscriptions of the lakes: every fourth scenario alone in ``make test-more``, since all take five minutes of a core."""


@dataclass(frozen=True, slots=True)
class Worked:
    """A project on which the commands have run, and how each has ended."""

    project: Project
    runs: Mapping[str, Ended]
    commands: Mapping[str, list[Ended]]

    def expected_windows(self, name: str) -> int:
        """The number of windows of its configuration."""
        window = load_settings(self.project.alone[name]).subscriptions[name].window
        assert window.end is not None
        return (window.end - window.start) // window.every

    def windows(self, name: str) -> int:
        """The number of windows of a subscription that the lake has."""
        pipeline = open_pipeline(load_settings(self.project.alone[name]), name)
        return len({row.window.start for row in pipeline.ledger.windows()})


@pytest.fixture(scope="module", autouse=True)
def _made_up_format() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SITE_PACKAGES)
        yield


def topics(names: Iterable[str]) -> list[Topic]:
    made = [TOPICS[name]() for name in names]
    assert [topic.name for topic in made] == list(names)
    return made


def part_of(topic: Topic) -> str:
    """The configuration that a topic is made with.

    A run makes Dagster's definitions of its whole configuration twice for each subscription, which takes 0.9 seconds of a core
    for 84 subscriptions. With one configuration for all, the definitions would take as long as all other work of the runs.
    """
    return "types" if topic.name in type_topics() else topic.format.partition("-")[0]


def made(names: Iterable[str], folder: Path) -> Worked:
    """A lake of some subscriptions, made by a command for each part of them."""
    project = Project.of(topics(names), folder, part=part_of)
    runs = {name: typed("run", "--config", str(config), folder=folder) for name, config in project.parts.items()}
    return Worked(project, runs, each_command(project.alone.values(), folder))


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Worked]]:
    """Two lakes, by the names of their subscriptions: they have nothing in common and are made side by side."""
    halves = [
        [name for name in NAMES if (name in type_topics() or name.startswith("drs_")) is half] for half in (True, False)
    ]
    with ThreadPoolExecutor(2) as pool:
        folders = [tmp_path_factory.mktemp("lake") for _ in halves]
        yield {name: one for names, one in zip(halves, pool.map(made, halves, folders), strict=True) for name in names}


@pytest.fixture
def worked(lakes: Mapping[str, Worked], name: str) -> Worked:
    return lakes[name]


def test_every_topic_is_a_subscription() -> None:
    assert len(TOPICS) == len(recorded_topics()) + len(scenarios()) + len(type_topics()) == 91


def test_the_runs_end_right(lakes: Mapping[str, Worked]) -> None:
    runs = {part: ended for worked in lakes.values() for part, ended in worked.runs.items()}
    assert set(runs) >= {"dts", "drs", "canal", "toy", "types"}
    assert [str(ended) for ended in runs.values() if not ended.is_right] == []


def test_the_configuration_is_right(lakes: Mapping[str, Worked]) -> None:
    for project in {id(worked): worked.project for worked in lakes.values()}.values():
        for command in (("config", "check"), ("tables",)):
            ended = typed(*command, "--config", str(project.config), folder=project.folder)
            assert ended.is_right, ended


@pytest.mark.parametrize("name", NAMES)
def test_commands_end_right(worked: Worked, name: str) -> None:
    assert worked.windows(name) == worked.expected_windows(name)
    assert len(worked.commands[name]) >= 6
    assert [str(ended) for ended in worked.commands[name] if not ended.is_right] == []


def test_typed_commands_end_right(lakes: Mapping[str, Worked], tmp_path: Path) -> None:
    config = lakes[TYPED].project.config
    commands = list(commands_of(open_pipeline(load_settings(config), TYPED), tmp_path))
    words = {command[1 if command[0] == "inspect" else 0] for command in commands}
    assert words == {
        "size",
        "keys",
        "rules",
        "maintain",
        "statements",
        "as-of",
        "message",
        "entry",
        "transaction",
        "window",
    }
    for command in commands:
        ended = typed(*command, "--config", str(config), folder=tmp_path)
        assert ended.is_right, ended


@pytest.mark.parametrize("name", type_topics())
def test_topics_with_every_type_have_zeros_and_values_that_do_not_fit(worked: Worked, name: str) -> None:
    pipeline = open_pipeline(load_settings(worked.project.alone[name]), name)
    known = {table.table: table for table in known_tables(pipeline)}
    assert len(known) >= 15
    assert not paused_here(pipeline)
    rows = {name: pipeline.lake.scan(pipeline.table_path("snapshot", table)) for name, table in known.items()}
    every = rows.pop("every")
    assert every is not None
    unfit = {column for texts in every["_invalid"].to_pylist() for column, _ in texts or ()}
    assert len(unfit) >= 9, "each type of the lake that is no text and no bytes"
    keys = [table for table in rows.values() if table is not None and table["_invalid"].null_count < table.num_rows]
    assert len(keys) >= 8, "keys of several types do not fit"


def test_a_long_name_is_refused_or_used(tmp_path: Path) -> None:
    """Dagster refuses it as the value of a tag."""
    topic = replace(TOPICS[TYPED](), name="n" * (LONGEST_NAME + 1))
    project = Project.of([topic], tmp_path)
    checked, done = (
        typed(*command, "--config", str(project.config), folder=tmp_path) for command in (("config", "check"), ("run",))
    )
    assert TRACEBACK not in checked.output + done.output
    assert (checked.exit_code, done.exit_code) in ((0, 0), (2, 2))
