"""Every command in README and docs is tested, or stands in a list with the reason; each has what it names."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import click
import pytest

from dts_assets.cli.main import cli
from tests.commands import CHEAP, DOCUMENTS, ENTER, HOUSE, IN_ORDER, MAKE, NAMED, NOT_RUN, commands_in

FOUND = {command: document.name for document in DOCUMENTS for command in sorted(commands_in(document))}


def test_every_command_of_the_documents_is_run_or_has_a_reason() -> None:
    listed = {*ENTER, *CHEAP, *IN_ORDER, *NAMED, *NOT_RUN}
    others = {command: name for command, name in FOUND.items() if not command.startswith(MAKE)}
    assert {command: name for command, name in others.items() if command not in listed} == {}
    assert listed - others.keys() == set(), "a list names what no document says any more"
    assert len(listed) == len(ENTER) + len(CHEAP) + len(IN_ORDER) + len(NAMED) + len(NOT_RUN), "one list for each"


@pytest.mark.parametrize("command", sorted(command for command in FOUND if command.startswith(MAKE)))
def test_every_target_of_make_is_there(command: str) -> None:
    done = subprocess.run(
        ["make", "-n", *shlex.split(command)[1:]], cwd=HOUSE, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", NAMED)
def test_every_name_of_a_command_has_a_help(command: str) -> None:
    parse([*shlex.split(command)[1:], "--help"])


@pytest.mark.parametrize("command", [one for one in (*CHEAP, *IN_ORDER) if one.startswith("dts-assets ")])
def test_every_command_of_ours_has_its_options(command: str) -> None:
    parse(shlex.split(command)[1:])


def parse(arguments: list[str]) -> None:
    """Read arguments as the command would, without calling it."""
    group: click.Command = cli
    context = None
    while arguments:
        try:
            context = group.make_context(group.name or "dts-assets", list(arguments), parent=context)
        except click.exceptions.Exit:  # of a help that was shown
            return
        if not isinstance(group, click.Group):
            return
        _, found, arguments = group.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        group = found
        if not arguments and not isinstance(group, click.Group):
            group.make_context(group.name or "", [], parent=context)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("run `dts-assets inspect\nwindow 2026-01-05T07:00` now", {"dts-assets inspect window 2026-01-05T07:00"}),
        ("| a | `dagster asset list 'a\\|b'` |", {"dagster asset list 'a|b'"}),
        ("```\n# why\ndts-assets run    # all\n```\n", {"dts-assets run"}),
        ("```\ndagster asset list \\\n  --select 'a'\n```\n", {"dagster asset list --select 'a'"}),
        ('text\n\n    make dev     # the UI\n\n    .venv/bin/python -c "1"\n', {"make dev", '.venv/bin/python -c "1"'}),
        ("```yaml\nmake dev: 1\n```\n and `shop/entries`, `dagster`, `make`", set()),
    ],
)
def test_commands_are_found_wherever_they_stand(text: str, found: set[str], tmp_path: Path) -> None:
    (tmp_path / "document.md").write_text(text)
    assert commands_in(tmp_path / "document.md") == found
