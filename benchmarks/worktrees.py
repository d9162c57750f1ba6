"""Another version of the project in a temporary folder, for the Python environment of this one.

It imports the standard library alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent
"""The checkout that this file belongs to."""

PACKAGES = ("dts_assets", "dts_emulator", "benchmarks")

_OF_THE_USER = ("DAGSTER_HOME", "DTS_ASSETS_CONFIG", "SPARK_REMOTE")
"""Variables that name a lake, an instance or a Spark of the user's."""

_OF_ANOTHER_CHECKOUT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Variables that Git sets for its hooks, which would name another checkout."""

_CHECK = f"""
import compileall, importlib.util, pathlib, sys
folder = pathlib.Path(sys.argv[1]).resolve()
for package in {PACKAGES!r}:
    if (folder / package).is_dir():
        found = importlib.util.find_spec(package)
        place = pathlib.Path(found.origin or next(iter(found.submodule_search_locations))).resolve()
        if folder not in place.parents:
            sys.exit(f"{{package}} is imported from {{place}} and not from {{folder}}")
        compileall.compile_dir(folder / package, quiet=2)
"""
"""A program that refuses packages from another folder, and compiles modules so that no measured process has to."""


@dataclass(frozen=True, slots=True)
class Version:
    """A folder with a version of the project, and its name: a commit, or ``the working tree``."""

    folder: Path
    name: str
    metadata: Path | None = None
    """A folder with its entry points, as an installation has them; without it those of the environment count."""

    @property
    def path(self) -> str:
        """The folders in which its processes look for packages first, as ``PYTHONPATH`` has them."""
        return os.pathsep.join(str(place) for place in (self.folder, self.metadata) if place is not None)

    def environment(self) -> dict[str, str]:
        """Return the environment of its processes, whose packages are imported from its folder."""
        kept = {name: value for name, value in os.environ.items() if name not in _OF_THE_USER}
        return kept | {"PYTHONPATH": self.path}

    def require_own_code(self) -> None:
        """Start a process of this version that refuses packages of another folder.

        Raises:
            SystemExit: A package would be imported from another folder, such as that of an editable install.
        """
        done = subprocess.run(
            [sys.executable, "-c", _CHECK, str(self.folder)],
            cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{self.name}: {done.stderr.strip()}")


WORKING_TREE = Version(HOUSE, "the working tree")


@contextmanager
def worktree(commit: str, *, house: Path = HOUSE) -> Iterator[Version]:
    """Yield a commit, checked out in a temporary folder that goes with the block.

    The version's name is the short hash. Uncommitted and untracked files of the checkout ``house`` are not in it.

    Raises:
        SystemExit: The repository has no such commit.
    """
    found = _git(house, "rev-parse", "--verify", "--quiet", "--short", f"{commit}^{{commit}}")
    if found.returncode:
        raise SystemExit(f"There is no commit {commit} in this repository.")
    with tempfile.TemporaryDirectory(prefix="dts-assets-worktree-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve() / "project"
        try:
            added = _git(house, "worktree", "add", "--quiet", "--detach", str(folder), f"{commit}^{{commit}}")
            if added.returncode:
                raise SystemExit(f"Git made no worktree of {commit}: {added.stderr.strip()}")
            yield Version(folder, found.stdout.strip(), metadata_of(folder, Path(name).resolve() / "metadata"))
        finally:
            _git(house, "worktree", "remove", "--force", "--force", str(folder))


def is_known(commit: str, *, house: Path = HOUSE) -> bool:
    """Return whether the repository has a commit; a shallow clone lacks older ones."""
    return _git(house, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0


def metadata_of(folder: Path, place: Path) -> Path | None:
    """Write the entry points of a version into a folder. Return the folder, or ``None`` for one without ``pyproject.toml``.

    Entry points of the environment name modules of the working tree, which another commit may have elsewhere.
    """
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    made = place / f"dts_assets-{project['version']}.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dts-assets\nVersion: {project['version']}\n")
    lines = []
    for group, points in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items()), ""]
    (made / "entry_points.txt").write_text("\n".join(lines))
    return place


def _git(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Git in a session of its own, whoever owns the checkout. Ctrl-C in a terminal does not end it in the middle."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_CHECKOUT}
    return subprocess.run(
        ["git", "-c", f"safe.directory={house}", "-c", "core.hooksPath=/dev/null", "-C", str(house), *arguments],
        env=environment, capture_output=True, text=True, check=False, start_new_session=True,
    )  # fmt: skip
