"""Cases of the MySQL family: a story is told to the task of each format that can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta, timezone
from typing import Any

from dts_emulator.conformance.expected import Built, Case
from dts_emulator.conformance.formats import ABILITIES, Abilities
from dts_emulator.conformance.plays import Play, from_end_to_end, stage_of
from dts_emulator.conformance.story import Story
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS

CLOCK = timezone(timedelta(hours=8))
"""The zone of clocks in formats that write a TIMESTAMP as a clock."""

TWO_PARTITIONS: Mapping[str, Any] = {"partitions": 2, "partitioning": "table+key", "partition_policy": 2}


@dataclass(frozen=True, slots=True)
class MysqlCase:
    """A story, and how it is told.

    ``tell`` gets the abilities of the format, and ``where`` chooses formats by them. ``judges_changes`` says in which formats the
    changes of tables are judged beside their rows. ``options`` are those of tasks; each task takes the options that it knows.
    """

    name: str
    title: str
    trap: str
    rule: str
    tell: Callable[[Story, Abilities], None]
    where: Callable[[Abilities], bool] = lambda abilities: True
    play: Play = from_end_to_end
    options: Mapping[str, Any] = field(default_factory=dict)
    judges_changes: Callable[[Abilities], bool] = lambda abilities: False
    quarantine: Callable[[str], Mapping[str, int]] = lambda name: {}
    has_copies: bool = False
    lineages: int = 1
    assumes: Mapping[str, str] = field(default_factory=dict)
    """By format, the assumption that its messages are made by."""

    def case(self) -> Case:
        """Return the case in all formats that can tell it."""
        formats = tuple(name for name, abilities in ABILITIES.items() if self.where(abilities))
        return Case(self.name, self.title, self.trap, self.rule, formats, self._built)

    def _built(self, name: str) -> Built:
        abilities, vendor = ABILITIES[name], VENDOR_TASKS[name]
        story = Story()
        self.tell(story, abilities)
        zone = {"source_time_zone": CLOCK} if abilities.wall_clock else {}
        stage = stage_of(name, {**self.options, **zone})
        tables = story.tables(with_changes=self.judges_changes(abilities))
        return Built(
            messages=tuple(self.play(stage, story)),
            tables=tuple(one.cut_to_milliseconds() for one in tables) if abilities.milliseconds else tables,
            source_type="MySQL",
            time_zone="+08:00" if abilities.wall_clock else "+00:00",
            partitions=stage.options.partitions,
            schema=None if vendor.schema is None else vendor.schema(),
            quarantine=self.quarantine(name),
            has_copies=self.has_copies,
            lineages=self.lineages,
            assumes=self.assumes.get(name),
        )
