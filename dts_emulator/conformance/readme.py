"""The README of a suite: everything that somebody needs who has the files and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from dts_emulator.conformance.expected import Case


def readme(version: str, cases: Sequence[Case]) -> str:
    """Return the text of a suite's README."""
    assert __package__
    text = files(__package__).joinpath("suite_readme.md").read_text("utf-8")
    return text.replace("{version}", version).replace("{cases}", table_of(cases))


def table_of(cases: Sequence[Case]) -> str:
    """Return the table of cases, of which each has its formats."""
    rows = [f"| `{one.name}` | {one.title} | {one.trap} | {', '.join(one.formats)} |" for one in cases]
    return "\n".join(["| case | what happens | trap | formats |", "| --- | --- | --- | --- |", *rows])
