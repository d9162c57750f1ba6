"""The lake of a case: its messages as a capture, its subscription, and the pieces of work by which it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from dts_assets.errors.databases import CopyError
from dts_assets.errors.removed_rows import RowsRemovedError
from dts_assets.errors.windows import NotClosedError, NotReadyError
from dts_assets.flows import maintenance, message_retention, snapshot_sorting
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.pauses import paused_by_person, resume_tables
from dts_assets.flows.redrive import Quarantined, redrive
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.model.ledger_rows import PausedBy
from dts_assets.model.maintenance import Step as Upkeep
from dts_assets.model.spans import Cell, Span
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.orphans import OrphanRule
from dts_assets.settings.maintenance import Maintenance
from dts_assets.stages.filter_eras import LACKING
from dts_assets.store import expiry
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message
from tests.dts_emulator.server_lives import FIRST, Life
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.flows.test_redrive import as_an_older_decoder_left_it
from tests.meetings.cases import HOURS, Case, Step, lanes_of
from tests.meetings.copying import copy_at
from tests.meetings.features import Feature, settings_of
from tests.meetings.streams import TOPICS

F = Feature
EVERY = timedelta(hours=HOURS)
REFUSALS = (NotClosedError, NotReadyError)
EAGER = Maintenance.model_validate(
    {"expire_after": "0s", "keep_versions": 1, "steps": [str(one) for one in Upkeep if one is not Upkeep.TAGS]}
)


def opened(case: Case, messages: list[Message], folder: Path, **others: Any) -> Harness:
    """The subscription of a case over its messages, with nothing made of it yet."""
    write_capture(messages, folder / "capture", topic="one")
    last = datetime.fromtimestamp(max(one.timestamp for one in messages) / 1000, UTC)
    topics = TOPICS if F.TOPICS in case.features else {}
    settings = {
        "tables": {"include": ["d.*", "shop_*.*"]},
        "source_time_zone": "+00:00",
        **settings_of(case.features, case.seed),
        **others,
    }
    return bench_in_process(folder, "meetings").open(
        folder / "capture", partitions=lanes_of(case.features), topics=topics,
        window={"every": EVERY, "start": FIRST, "end": FIRST + ((last - FIRST) // EVERY + 2) * EVERY}, **settings,
    )  # fmt: skip


@contextmanager
def quick() -> Iterator[None]:
    """Few messages are enough for old ones to leave, and Iceberg snapshots may go at once."""
    with mock.patch.object(message_retention, "MESSAGES_KEPT", 3), mock.patch.object(expiry, "KEEP_FOR", timedelta(0)):
        yield


def work(harness: Harness, case: Case, life: Life) -> None:
    """Do all steps of a case in their order, and then what is missing or stale until nothing is."""
    with quick():
        for step in case.steps:
            refusals = (*REFUSALS, *([RowsRemovedError] if F.RETENTION in case.features else []))
            # docs/rules.md: a copy needs the column of the row filter by the name that known statements say.
            refusals += (CopyError,) if F.FILTER in case.features else ()
            with suppress(*refusals):
                _do(harness, step, life)
        if F.REDRIVE in case.features:
            _redrive(harness)
        if F.PAUSES in case.features:
            _resume(harness)
        settle(harness, case.features)


def settle(harness: Harness, features: frozenset[Feature]) -> None:
    """Settle, and let tables go on as an operator does, until none can.

    They stopped at a change of their schemas, or at the new name of a filter's column whose statement was not there yet, or had
    its place among other servers than those that are known since.
    """
    resumed = set[TableId]()
    for _ in range(40):
        harness.settle()
        still = {one.table: one.reason for one in harness.pipeline.ledger.paused_tables()}
        stopped = {table for table, reason in still.items() if F.STOP in features and "take it over with" in reason}
        sentences = ("no column is called so", ", which its row filter needs", LACKING)
        unnamed = {table for table, reason in still.items() if any(one in reason for one in sentences)} - resumed
        if not stopped | unnamed:
            return
        resumed |= unnamed
        resume_tables(harness.pipeline, sorted(stopped | unnamed))


def _do(harness: Harness, step: Step, life: Life) -> None:
    whole: dict[str, Callable[[], object]] = {
        "maintain": lambda: _maintain(harness),
        "redrive": lambda: _redrive(harness),
        "copy": lambda: copy_at(harness, life, step.first),
        "break": lambda: _break(harness, step),
        "pause": lambda: _pause(harness, step),
        "remove": lambda: _pause(harness, step, removes=True),
        "resume": lambda: _resume(harness),
    }
    if step.work in whole:
        whole[step.work]()
        return
    grid = harness.pipeline.grid
    windows = tuple(one for one in map(grid.at, range(step.first, step.last + 1)) if _is_inside(harness, one))
    if not windows:
        return
    span = Span(tuple(range(step.low, min(step.high, harness.pipeline.settings.partitions - 1) + 1)), windows)
    if step.work == "all":
        span = Span(tuple(harness.pipeline.kafka_partitions), windows)
    if step.work in ("raw", "all"):
        harness.raw_of(span)
    if step.work in ("entries", "all"):
        harness.entries_of(span)
    if step.work in ("tables", "all"):
        harness.tables_of(windows)


def _is_inside(harness: Harness, window: Window) -> bool:
    end = harness.pipeline.grid.end
    return end is None or window.end <= end


def _break(harness: Harness, step: Step) -> None:
    """Leave a cell as an older decoder did that understood nothing of it."""
    there = {row.cell for row in harness.pipeline.ledger.windows()}
    cell = Cell(step.low, harness.pipeline.grid.at(step.first))
    if cell in there:
        as_an_older_decoder_left_it(harness, cell)


def _pause(harness: Harness, step: Step, *, removes: bool = False) -> None:
    """Let a table stand still for a person, or take it out of the lake."""
    still = {one.table for one in harness.pipeline.ledger.paused_tables()}
    known = sorted(known_tables(harness.pipeline).keys() - still)
    chosen = known[step.first % len(known) :][:1] if known else []
    if removes:
        remove_tables(harness.pipeline, chosen, progress=harness.lines.append)
    else:
        paused_by_person(harness.pipeline, chosen, reason="somebody looks at it")


def _resume(harness: Harness) -> None:
    """Let all tables go on that a person has paused, and bring the removed ones back."""
    rows = harness.pipeline.ledger.paused_tables()
    add_tables(harness.pipeline, [one.table for one in rows if one.is_removed], progress=harness.lines.append)
    resume_tables(harness.pipeline, [one.table for one in rows if one.by is PausedBy.PERSON])


def _redrive(harness: Harness) -> None:
    redrive(harness.pipeline, Quarantined(), spark=lambda: harness.session, progress=harness.lines.append)


def _maintain(harness: Harness) -> None:
    eager = OrphanRule(datetime.now(UTC) + timedelta(days=1))
    pipeline = replace(harness.pipeline, settings=harness.pipeline.settings.model_copy(update={"maintenance": EAGER}))
    with (
        mock.patch.object(maintenance, "orphan_rule", return_value=eager),
        mock.patch.multiple(snapshot_sorting, FILE_BYTES=2_000),
    ):
        done = list(maintain(pipeline, only=(), spark=lambda: harness.session, progress=harness.lines.append))
    failed = [line for one in done for line in one.failed]
    if failed:
        raise AssertionError(f"maintenance was not done: {failed}")
