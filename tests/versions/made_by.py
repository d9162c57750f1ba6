"""Lakes that the code of a commit makes: a worktree of the commit, and a child process that runs its code.

The child runs in the present environment, and finds ``dts_assets`` in the worktree::

    with code_of("08d8feab") as code:
        made = make_lake(code, config, settle())

Tests share the worktree of a commit by the fixture ``codes`` (``tests/versions/conftest.py``): ``codes.of("08d8feab")``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest

from benchmarks.worktrees import Version, is_known, metadata_of, worktree

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("child.py")

TIMEOUT = 500
"""The seconds after which a child process is ended; only a broken machine reaches them."""

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


Code: TypeAlias = Version
"""A folder with the package ``dts_assets``, and with its entry points as an installation has them."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of making a lake: a word that ``tests/versions/child.py`` knows, and its arguments."""

    word: str
    arguments: tuple[str | int, ...] = ()


def settle() -> Step:
    """Do the work that the lake lacks until nothing is left, of open windows too."""
    return Step("settle")


def ask() -> Step:
    """Ask for the work that the lake lacks; the answer is added to the answers of the lake."""
    return Step("ask")


def windows(first: int, last: int) -> Step:
    """Make some windows, counted from zero, whether they are stored or not."""
    return Step("windows", (first, last))


def read() -> Step:
    """Read the messages of all stored windows again."""
    return Step("read")


def copy() -> Step:
    """Copy the tables that the configuration names, from files."""
    return Step("copy")


def remove(database: str, table: str) -> Step:
    """Take a table out of the lake."""
    return Step("remove", (database, table))


def add(source: Path, capture: Path) -> Step:
    """Let a capture grow by the files of a folder."""
    return Step("add", (str(source), str(capture)))


@dataclass(frozen=True, slots=True)
class Job:
    """A lake to be made: its configuration, the subscription in it, and the steps."""

    config: Path
    subscription: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """The work that a lake lacks: cells as texts, and the keys of windows."""

    ingest: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


NOTHING = Work()


@dataclass(frozen=True, slots=True)
class MadeLake:
    """A lake that was made: the answers among its steps, and the lines of progress."""

    answers: tuple[Work, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """The lakes of one process, in the order of their jobs, and the code version that made them."""

    code_version: str
    lakes: tuple[MadeLake, ...]


class ChildError(Exception):
    """A process with the code of a commit failed; the text is the end of what it said."""


@contextmanager
def code_of(commit: str, *, root: Path = ROOT) -> Iterator[Code]:
    """Yield the code of a commit in a worktree of its own, which goes at the end.

    Where the repository lacks the commit, the test is skipped; in continuous integration it fails.
    """
    _require_commit(commit, root)
    with worktree(commit, house=root) as code:
        yield code


def code_in(folder: Path, *, metadata: Path) -> Code:
    """Return the code in a folder with ``pyproject.toml``; its entry points are written into ``metadata``."""
    return Code(folder, folder.name, metadata_of(folder, metadata))


def edited(code: Code, folder: Path, edits: Mapping[str, tuple[str, str]]) -> Code:
    """Return a copy of a code with edits: by file, a text that stands in it once, and the text in its place."""
    # Compiled modules come along: they stay valid, since copies keep the times of files.
    shutil.copytree(code.folder / "dts_assets", folder / "dts_assets")
    for name, (before, after) in edits.items():
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{name} has the text of an edit {text.count(before)} times: {before}"
        (folder / name).write_text(text.replace(before, after), encoding="utf-8")
    return Code(folder, f"{code.name} with edits", code.metadata)


def make_lake(
    code: Code,
    config: Path,
    *steps: Step,
    subscription: str = "subscription",
    variables: Mapping[str, str] = NO_VARIABLES,
) -> Made:
    """Make one lake with a code; see :func:`make_lakes`."""
    return make_lakes(code, [Job(config, subscription, steps)], variables=variables)


def make_lakes(code: Code, jobs: Sequence[Job], *, variables: Mapping[str, str] = NO_VARIABLES) -> Made:
    """Make lakes with a code, all in one child process without a JVM.

    ``variables`` are added to the environment: configurations may name them.

    Raises:
        ChildError: the process failed.
    """
    described = [
        {
            "config": str(one.config),
            "subscription": one.subscription,
            "steps": [(step.word, *step.arguments) for step in one.steps],
        }
        for one in jobs
    ]
    said = _run(code, [sys.executable, "-P", str(CHILD)], json.dumps(described), variables)
    found = json.loads(said.splitlines()[-1])
    _require_own(code, found["package"])
    return Made(found["version"], tuple(_lake(one) for one in found["lakes"]))


def run_command(code: Code, *arguments: str) -> str:
    """Run ``dts-assets`` of a code and return what it printed; ``run --config FILE`` starts a JVM.

    Raises:
        ChildError: the command failed.
    """
    _require_own(code, _run(code, [sys.executable, "-c", "import dts_assets; print(dts_assets.__file__)"]).strip())
    return _run(code, [sys.executable, "-m", "dts_assets", *arguments])


@dataclass(slots=True)
class Codes:
    """The codes of commits, each checked out once and kept until ``stack`` is closed."""

    stack: ExitStack
    present: Code
    commits: dict[str, Code] = field(default_factory=dict)

    def of(self, commit: str) -> Code:
        """Return the code of a commit."""
        if commit not in self.commits:
            self.commits[commit] = self.stack.enter_context(code_of(commit))
        return self.commits[commit]


def _lake(found: Mapping[str, Any]) -> MadeLake:
    answers = [Work(**{name: tuple(some) for name, some in one.items()}) for one in found["answers"]]
    return MadeLake(tuple(answers), tuple(found["lines"]))


def _run(code: Code, command: Sequence[str], given: str = "", variables: Mapping[str, str] = NO_VARIABLES) -> str:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, cwd=code.folder, check=False, timeout=TIMEOUT,
        env={**environment_of(code), **variables},
    )  # fmt: skip
    if done.returncode:
        raise ChildError(f"{' '.join(command[1:3])} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


def environment_of(code: Code) -> dict[str, str]:
    """Return the environment of a process that finds this code before the installed one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "PYTHONPATH": code.path, "PYTHONHASHSEED": "0"}  # sets have one order in all processes


def _require_own(code: Code, package: str) -> None:
    """Refuse a child that has imported another code than its own."""
    own = (code.folder / "dts_assets" / "__init__.py").resolve()
    assert Path(package).resolve() == own, f"the child has imported {package} instead of {own}"


def _require_commit(commit: str, root: Path) -> None:
    if is_known(commit, house=root):
        return
    said = f"the commit {commit} is not in this clone: fetch the whole history (git fetch --unshallow)"
    if os.environ.get("CI") == "true":
        pytest.fail(said, pytrace=False)
    pytest.skip(said)
