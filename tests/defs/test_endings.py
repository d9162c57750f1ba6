"""The end of a `dagster` command that fails: a sentence, and no stack below it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from dagster._utils.error import serializable_error_info_from_exc_info

from dts_assets.defs.endings import install_endings, without_stack
from dts_assets.errors import NothingFoundError
from tests.defs.projects import Project

HOUSE = Path(__file__).parents[2]
DAGSTER = str(Path(sys.executable).with_name("dagster"))


def materialize(project: Project, *partition: str) -> subprocess.Popen[str]:
    home = project.folder / f"home {partition}"  # two of them that make one home at once are another story
    home.mkdir()
    environment = {
        **os.environ, "DTS_ASSETS_CONFIG": str(project.config), "DAGSTER_HOME": str(home), "PYTHONPATH": str(HOUSE),
    }  # fmt: skip
    command = [
        DAGSTER,
        "asset",
        "materialize",
        "--select",
        "shop/raw_envelopes",
        *partition,
        "-m",
        "dts_assets.definitions",
    ]
    return subprocess.Popen(
        command, env=environment, cwd=HOUSE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.more
def test_a_command_that_fails_ends_with_a_sentence(project: Project) -> None:
    # The recording is not there. The commands run side by side, because each takes seconds to load.
    asked = (
        ("--partition", "p00|2026-01-05-00:00"),
        ("--partition", "p00|2026-01-05T00:00"),
        ("--partition-range", "p00|2026-01-05-00:00"),
        (),
    )
    commands = [materialize(project, *one) for one in asked]
    failed, unknown, no_range, none = (command.communicate(timeout=120)[0].splitlines() for command in commands)
    assert [command.returncode for command in commands] == [1, 1, 1, 1]
    sentence = f"The capture {project.folder / 'capture'} cannot be used: there is no such folder"
    # Spark starts in the background, so Java's warning comes at any moment, also after the last line.
    failed = [line for line in failed if not line.startswith("WARNING: Using incubator modules")]
    assert failed[-1] == "Error: Materialization failed."
    assert [line for line in failed if line][-2].startswith(sentence)
    for lines in (unknown, no_range, none):
        assert lines[-1].startswith("Error: ")
        assert "Keys look like p00|2026-01-05-03:00" in lines[-1]
    assert not any("Traceback" in line or "Stack Trace" in line for line in [*failed, *unknown, *no_range, *none])


def record(error: Exception) -> logging.LogRecord:
    """A failure as Dagster logs it."""
    try:
        raise RuntimeError("a step failed") from error
    except RuntimeError:
        kept = serializable_error_info_from_exc_info(sys.exc_info())
    made = logging.LogRecord(
        "dagster", logging.ERROR, "", 0, f"STEP_FAILURE - failed.\n\n{kept.to_string()}", None, None
    )
    made.dagster_meta = {"dagster_event": SimpleNamespace(event_specific_data=SimpleNamespace(error=kept))}
    return made


def test_the_stack_of_a_strangers_error_is_shown() -> None:
    made = record(ValueError("odd"))
    before = made.getMessage()
    assert without_stack(made)
    assert made.getMessage() == before


def test_of_an_error_of_ours_the_sentence_is_shown() -> None:
    error = NothingFoundError("The lake", "row 100 %s", "look elsewhere")
    made = record(error)
    assert without_stack(made)
    assert made.getMessage() == f"STEP_FAILURE - failed.\n\n{error}\n"


def test_other_lines_are_left_alone() -> None:
    made = logging.LogRecord("dagster", logging.INFO, "", 0, "reading %s messages", ("5",), None)
    assert without_stack(made)
    assert made.getMessage() == "reading 5 messages"


@pytest.mark.parametrize(
    "arguments",
    [["dagster"], ["dagster", "dev"], ["dagster", "api", "grpc"], ["pytest", "asset"], ["dts-assets", "run"]],
)
def test_every_other_process_is_left_as_it_is(arguments: list[str]) -> None:
    before = (sys.excepthook, logging.getLoggerClass())
    install_endings(arguments)
    assert (sys.excepthook, logging.getLoggerClass()) == before
