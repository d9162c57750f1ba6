"""What `dts-assets run` says: of a run that failed our sentence and no library's, and by its exit code what the ledger judges."""

from __future__ import annotations

import errno
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from dagster._utils.error import serializable_error_info_from_exc_info
from dagster_shared.error import SerializableErrorInfo

from dts_assets.cli.dagster_runs import Dagster, Request, open_dagster
from dts_assets.cli.idle import AS_NAMED, UP_TO_DATE, idle_sentence
from dts_assets.cli.main import cli
from dts_assets.defs.assemble import assemble
from dts_assets.defs.failures import IN_THE_UI, error_code, error_sentence
from dts_assets.defs.partitions import span_tags
from dts_assets.errors import DtsAssetsError, UnavailableCatalogError, UnwritableLakeError
from dts_assets.errors.damage import DamagedCatalogError
from dts_assets.errors.disks import FullDiskError
from dts_assets.errors.sources import GroupInUseError, UnreachableBrokerError
from dts_assets.flows.known_tables import known_tables
from dts_assets.model.delivery import NOTHING_DELIVERED, CellDelivery, ShardSequence
from dts_assets.model.failures import Failure
from dts_assets.model.ledger_rows import IngestWindow
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.model.spans import Cell, Span
from dts_assets.model.tables import TableId
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.copied_tables import NO_COPIES
from dts_assets.settings import load_settings
from tests.defs.projects import Project
from tests.ledger_rows import ingest_row, raw_row

START = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    # No flow asks for Spark; and a session of these tests' configuration would be everybody's in this process.
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.start", lambda _: None)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    made = Project(tmp_path).configure()
    made.send("one", [(partition, 0, START) for partition in (0, 1)])
    return made


def kept(error: Exception, cause: Exception | None) -> SerializableErrorInfo:
    """An error as Dagster keeps it."""
    try:
        raise error from cause
    except Exception:
        return serializable_error_info_from_exc_info(sys.exc_info())


def library_error() -> Exception:
    error = OSError("(sqlite3.OperationalError) text of a library")
    error.__cause__ = ValueError("deeper")
    return error


@pytest.mark.parametrize(
    "error",
    [
        UnreachableBrokerError("host:9092", "connection refused", seconds=5),
        GroupInUseError("host:9092", "shop-group"),
        UnwritableLakeError("/lake", "permission denied"),
    ],
)
def test_an_error_of_ours_is_shown_whatever_caused_it_and_whatever_it_caused(error: DtsAssetsError) -> None:
    assert error_sentence(kept(error, library_error())) == str(error)
    error.__cause__ = library_error()
    assert error_sentence(kept(RuntimeError("a task failed"), error)) == str(error)
    assert error_code(kept(RuntimeError("a task failed"), error)) == error.exit_code


def test_a_strangers_error_is_named_with_its_class_and_the_place_of_its_stack() -> None:
    assert error_sentence(kept(RuntimeError("odd"), ValueError("deeper"))) == f"RuntimeError: odd ({IN_THE_UI})"
    assert error_sentence(None) == IN_THE_UI
    assert error_code(kept(RuntimeError("odd"), ValueError("deeper"))) == error_code(None) == 1


def test_a_run_ends_with_the_sentence_of_its_broker_or_its_lake(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = UnreachableBrokerError("host:9092", "connection refused", seconds=5)

    def ask(*_: Any, **__: Any) -> None:
        raise broker from library_error()

    lake = project.folder / "lake"
    lake.mkdir()
    (lake / "catalog.db").write_text("no database" * 100)
    request = Request("shop_ingest", "all", span_tags(Span((0, 1), (project.subscription.grid.at(0),))))
    with open_dagster(project.config) as dagster:
        definitions = assemble(load_settings(project.config), project.config)
        monkeypatch.setattr("dts_assets.flows.raw.materialize_raw", ask)
        assert dagster.execute(definitions, request) == Failure(str(broker), 10)
        monkeypatch.setattr("dts_assets.flows.raw.materialize_raw", lambda pipeline, *_, **__: pipeline.lake.catalog)
        expected = DamagedCatalogError(str(lake / "catalog.db"))
        assert dagster.execute(definitions, request) == Failure(str(expected), 11)


def test_a_full_disk_ends_the_run_with_its_sentence(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    request = Request("shop_ingest", "all", span_tags(Span((0, 1), (project.subscription.grid.at(0),))))
    with open_dagster(project.config) as dagster:
        definitions = assemble(load_settings(project.config), project.config)
        monkeypatch.setattr("dts_assets.flows.raw.materialize_raw", full)
        assert dagster.execute(definitions, request) == Failure(str(FullDiskError()), 11)


def test_a_locked_catalog_ends_the_command_with_a_sentence_that_asks_to_run_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dts_assets.store.catalog.SQLITE_WAIT_SECONDS", 0)
    lake = project.folder / "lake"
    lake.mkdir()
    with closing(sqlite3.connect(lake / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = CliRunner().invoke(cli, ["run", "--config", str(project.config)])
    assert done.exit_code == UnavailableCatalogError.exit_code
    assert "its database was locked for too long" in done.stderr
    assert "run it again" in done.stderr
    assert "sqlite3" not in done.stderr


# A machine and a configuration on which nothing can run: the code that the help lists, before a run begins


def test_without_java_the_command_ends_at_once_with_the_code_of_the_machine(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(project.folder))
    monkeypatch.setattr(Dagster, "execute", lambda *_: pytest.fail("a run was started"))
    done = run_command(project)
    assert (done.exit_code, done.stderr.count("\n")) == (13, 1)
    assert f"Spark needs Java 17 or newer and none was found in {project.folder}" in done.stderr


def test_without_work_no_java_is_asked_for(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    ingested(project, level=Completeness.INCOMPLETE)
    monkeypatch.setenv("JAVA_HOME", str(project.folder))
    assert run_command(project).exit_code == 0


def test_a_recording_that_is_not_there_is_no_work_that_is_done(project: Project) -> None:
    (project.folder / "capture").rename(project.folder / "moved")
    done = run_command(project)
    assert (done.exit_code, "Nothing to do" in done.output) == (10, False)
    assert f"The capture {project.folder / 'capture'} cannot be used: there is no such folder" in done.stderr


def test_a_recording_that_is_yet_to_come_is_waited_for(project: Project) -> None:
    project.configure(complete=False)
    (project.folder / "capture").rename(project.folder / "moved")
    done = run_command(project)
    assert (done.exit_code, "Nothing to do" in done.output) == (0, False)
    assert (
        "shop: no window has closed yet: the source has no message yet. Window 2026-01-05-00:00 closes" in done.output
    )
    assert "from 2026-01-05 01:00 UTC on, or 10m after that time without one. Type dts-assets run then." in done.output


def test_a_run_that_failed_ends_with_the_code_of_its_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dagster, "execute", lambda *_: Failure("The topic is gone.", 10))
    done = run_command(project)
    assert done.exit_code == 10
    assert done.stderr.endswith(" failed: The topic is gone.\n")


@pytest.mark.parametrize("home", ["file", "file/home", "/proc/self"])
def test_a_home_that_cannot_be_written_is_one_sentence(
    project: Project, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (project.folder / "file").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(project.folder / home))
    done = run_command(project)
    assert (done.exit_code, done.stderr.count("\n")) == (13, 1)
    assert "Dagster's home" in done.stderr


# What the command says of a ledger, and its exit code

ORDERS = TableId("shopdb", "", "orders")
UNREADABLE = Problem(ProblemCode.QUARANTINED, None, None, "1 entry sets are in quarantine")


def numbers(first: int, last: int) -> CellDelivery:
    """The messages of a cell, each with its number in ``ps``."""
    sequence = ShardSequence("", first, 0, last, last - first, last, 0, 0, 0)
    return CellDelivery(0, 9, last - first + 1, 0, 0, (), (sequence,), (), 0, None)


def ingested(
    project: Project, *, partition_1: Sequence[CellDelivery] = (), unreadable: Cell | None = None, level: Completeness
) -> list[IngestWindow]:
    """Put the marks of raw and entries of all three windows into the lake: no run of the ingest is left to do."""
    pipeline = project.pipeline
    pipeline.check_shape()
    raw, rows = [], []
    for partition in (0, 1):
        for number, window in enumerate(pipeline.grid.at(number) for number in range(3)):
            cell, offsets = Cell(partition, window), OffsetRange(min(number, 1), 1)
            raw.append(raw_row(cell, offsets, ClosedBy.END))
            row = ingest_row(
                cell, offsets, ClosedBy.END, inputs=[f"format={pipeline.decoding_settings()}", f"raw:{cell}=g"],
                delivery=partition_1[number] if partition and partition_1 else NOTHING_DELIVERED,
                problems=(UNREADABLE,) if cell == unreadable else (),
            )  # fmt: skip
            rows.append(replace(row, completeness=level) if cell == unreadable else row)
    pipeline.ledger.replace_raw_windows([row.cell for row in raw], raw)
    pipeline.ledger.replace_windows([row.cell for row in rows], rows)
    return rows


def run_command(project: Project) -> Result:
    done = CliRunner().invoke(cli, ["run", "--config", str(project.config)], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


GAP_AT_A_BORDER = [numbers(1, 10), numbers(11, 20), numbers(23, 30)]


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("deliveries", "exit_code", "said"),
    [((), 0, ""), (GAP_AT_A_BORDER, 3, "2026-01-05-02:00: incomplete (gap)")],
    ids=["whole", "a gap between two windows"],
)
@pytest.mark.parametrize("known", [True, False], ids=["a table is known", "no table is known"])
def test_the_exit_code_is_the_judgement_of_windows_too(
    project: Project, *, deliveries: Sequence[CellDelivery], exit_code: int, said: str, known: bool
) -> None:
    rows = ingested(project, partition_1=deliveries, level=Completeness.INCOMPLETE)
    if known:
        project.register({ORDERS: [("id", "int", True)]})
        pipeline = project.pipeline
        topic = pipeline.topic_marks(rows, known_tables(pipeline), copied=NO_COPIES)
        windows = [pipeline.grid.at(number) for number in range(3)]
        pipeline.ledger.replace_cuts(windows, [topic.mark(window) for window in windows])
        levels = [row.completeness for row in pipeline.ledger.cuts()]
        assert (Completeness.INCOMPLETE in levels) == (exit_code == 3)
    assert all(row.completeness is not Completeness.INCOMPLETE for row in project.pipeline.ledger.windows())
    done = run_command(project)
    assert done.exit_code == exit_code, done.output
    assert said in done.output
    assert ("incomplete" in done.output) == bool(said)


def test_windows_of_which_no_table_is_known_end_the_command_right(project: Project) -> None:
    cell = Cell(0, project.pipeline.grid.at(1))
    ingested(project, unreadable=cell, level=Completeness.INCOMPLETE)
    done = run_command(project)
    assert done.exit_code == 3, done.output
    assert f"{cell}: incomplete (quarantined)" in done.output
    assert f"{cell.window.key}: incomplete (quarantined)" in done.output
    assert "3 closed windows hold no table that is taken: tables of the configuration says" in done.output


# Checks at the end, and subscriptions beside one another: none ends the others


def test_a_check_that_fails_ends_no_other(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(*_: Any, **__: Any) -> None:
        raise ValueError("a row with a value")

    ingested(project, unreadable=Cell(0, project.pipeline.grid.at(1)), level=Completeness.INCOMPLETE)
    monkeypatch.setattr("dts_assets.cli.closing.known_tables", odd)
    monkeypatch.setattr("dts_assets.cli.closing.find_repeated_keys", odd)
    done = run_command(project)
    assert done.exit_code == 3, done.output
    for check in ("rows", "converted columns", "keys"):
        assert f"shop: the check of {check} could not be finished: ValueError at cli/closing.py:" in done.stderr
    assert "incomplete (quarantined)" in done.output
    assert "a row with a value" not in done.output
    assert "Traceback" not in done.output


@pytest.mark.more
def test_a_check_that_fails_by_an_error_for_people_gives_its_sentence_and_its_code(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwritable(*_: Any) -> None:
        raise UnwritableLakeError("/lake", "permission denied")

    ingested(project, unreadable=Cell(0, project.pipeline.grid.at(1)), level=Completeness.INCOMPLETE)
    monkeypatch.setattr("dts_assets.cli.closing.known_tables", unwritable)
    monkeypatch.setattr("dts_assets.cli.closing.paused_here", unwritable)
    done = run_command(project)
    assert done.exit_code == 11, done.output
    assert done.stderr == f"{UnwritableLakeError('/lake', 'permission denied')}\n"
    assert "incomplete (quarantined)" in done.output


def test_a_subscription_that_fails_ends_no_other(project: Project) -> None:
    ingested(project, unreadable=Cell(0, project.pipeline.grid.at(1)), level=Completeness.INCOMPLETE)
    text = project.config.read_text("utf-8")
    other = text[text.index("  shop:") :].replace("  shop:", "  another:").replace("./capture", "./nowhere")
    first, _, last = text.partition("  shop:")
    project.config.write_text(f"{first}{other}  shop:{last}", "utf-8")
    done = run_command(project)
    assert done.exit_code == 10, done.output
    assert f"The capture {project.folder / 'nowhere'} cannot be used" in done.stderr
    assert "shop: 6 partitions" in done.output
    assert "incomplete (quarantined)" in done.output


# Nothing to run: the sentence that all is there is said where all is there, and nowhere else


def test_nothing_is_to_do_where_every_closed_window_is_there(project: Project) -> None:
    rows = ingested(project, level=Completeness.INCOMPLETE)
    project.register({ORDERS: [("id", "int", True)]})
    pipeline = project.pipeline
    windows = [pipeline.grid.at(number) for number in range(3)]
    topic = pipeline.topic_marks(rows, known_tables(pipeline), copied=NO_COPIES)
    pipeline.ledger.replace_cuts(windows, [topic.mark(window) for window in windows])
    done = run_command(project)
    assert (done.exit_code, done.output.count(UP_TO_DATE)) == (0, 1)


@pytest.mark.more
def test_beside_an_incomplete_window_it_points_at_what_is_named(project: Project) -> None:
    ingested(project, unreadable=Cell(0, project.pipeline.grid.at(1)), level=Completeness.INCOMPLETE)
    done = run_command(project)
    assert (done.exit_code, UP_TO_DATE in done.output, AS_NAMED in done.output) == (3, False, True)


@pytest.mark.more
def test_a_start_that_lies_ahead_is_named(project: Project) -> None:
    project.configure(complete=False)
    text = project.config.read_text("utf-8")
    ahead = text.replace("2026-01-05T00:00Z", "2099-01-05T00:00Z")
    project.config.write_text(ahead.replace("2026-01-05T03:00Z", "2099-01-05T03:00Z"), "utf-8")
    done = run_command(project)
    assert (done.exit_code, UP_TO_DATE in done.output) == (0, False)
    assert "window.start is 2099-01-05 00:00 UTC, and the newest message is of 2026-01-05 00:00 UTC" in done.output


@pytest.mark.more
def test_an_open_window_that_is_followed_is_named_with_its_job(project: Project) -> None:
    project.configure(live=True, complete=False)
    ingested(project, level=Completeness.INCOMPLETE)
    project.register({ORDERS: [("id", "int", True)]})
    sentence = idle_sentence(project.pipeline)
    assert sentence.startswith("shop: all 3 closed windows are there. Its open window is followed by the job shop_live")


@pytest.mark.more
def test_tables_that_nobody_asks_for_are_listed(project: Project) -> None:
    ingested(project, level=Completeness.INCOMPLETE)
    done = run_command(project)
    assert (done.exit_code, UP_TO_DATE in done.output) == (0, False)
    assert "shop: 3 closed windows hold no table that is taken: tables of the configuration says" in done.output
    assert "their entries name no table" in done.output


@pytest.mark.more
def test_a_wrong_format_is_one_line_with_the_place_and_the_right_one(project: Project) -> None:
    rows = ingested(project, level=Completeness.INCOMPLETE)
    strange = Problem(ProblemCode.FORMAT, None, None, "32 of 32 messages that were looked at look like drs-json")
    broken = [replace(row, completeness=Completeness.INCOMPLETE, problems=(UNREADABLE, strange)) for row in rows]
    project.pipeline.ledger.replace_windows([row.cell for row in broken], broken)
    done = run_command(project)
    assert done.exit_code == 3
    assert done.output.count("are not of the format") == 1
    assert "no table that is taken" not in done.output
    place = f"{project.config}:4: subscriptions.shop.format: the messages of 9 partitions are not of the format"
    assert place in done.output
    assert "nothing is lost: the next dts-assets run decodes all of them again" in done.output
    assert "incomplete (" not in done.output
