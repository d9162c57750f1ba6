"""Pythons for executors that are not as they should be, each a command that starts the real one."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

_NOT_OURS = ("dts_assets", "dts_emulator", "__editable__")

_OTHER_VERSION = """\
import sys

import pyspark.worker_util


class Other:
    version_info = (3, 12, 0, "final", 0)

    def __getattr__(self, name):
        return getattr(sys, name)


pyspark.worker_util.sys = Other()
"""


def python_without(folder: Path, *packages: str) -> Path:
    """A Python that has all packages but dts-assets and those that begin with a name in ``packages``."""
    there = folder / "packages"
    there.mkdir(parents=True)
    for one in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not one.name.startswith((*_NOT_OURS, *packages)) and one.suffix != ".pth":
            (there / one.name).symlink_to(one)
    return _command(folder, f'PYTHONPATH="$PYTHONPATH:{there}" exec {sys.executable} -S "$@"')


def python_of_another_version(folder: Path) -> Path:
    """A Python whose workers say that it is 3.12."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(_OTHER_VERSION)
    return _command(folder, f'PYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"')


def real_pythons() -> list[Path]:
    """The Pythons of other minor versions that stand beside this one, one older and one newer if there are such."""
    mine = sys.version_info[:2]
    found = {}
    for path in sorted(Path(sys.base_prefix).parent.glob("3.*/bin/python3")):
        minor = tuple(int(part) for part in path.parents[1].name.split(".")[:2])
        found[minor] = path
    known = sorted(found)
    older, newer = [one for one in known if one < mine], [one for one in known if one > mine]
    return [found[one] for one in (*older[-1:], *newer[:1])]


def _command(folder: Path, line: str) -> Path:
    command = folder / "python"
    command.write_text(f"#!/bin/sh\n{line}\n")
    command.chmod(0o755)
    return command
