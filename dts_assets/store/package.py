"""The package dts-assets itself, as executors get it: an archive of its modules, and their digest.

The package is pure Python, so that one archive serves every platform. The packages that it needs are not in it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

PACKAGE = "dts_assets"
ARCHIVE = f"{PACKAGE}.zip"
"""The name of the archive, here and in the folder of an executor."""

_KEPT: list[tempfile.TemporaryDirectory[str]] = []
"""The folders of archives. An executor that comes late fetches its archive from there, so they last as long as the process."""


@cache
def package_archive() -> Path:
    """Return the archive, made once in a process; it goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="dts-assets-")
    _KEPT.append(folder)
    path = Path(folder.name) / ARCHIVE
    write_archive(path)
    package_digest()  # of the same moment, whatever is edited meanwhile
    return path


def write_archive(path: Path) -> None:
    """Write the archive to a file; equal modules give equal bytes."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in _modules():
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)


@cache
def package_digest() -> str:
    """Return a digest of all modules as they are when it is first asked for."""
    digest = hashlib.sha256()
    for name, content in _modules():
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _modules() -> Iterator[tuple[str, bytes]]:
    """Yield the path of each module below the package's parent and its bytes, sorted: ``dts_assets/model/spans.py``."""
    return _below(files(PACKAGE), PACKAGE)


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for one in sorted(folder.iterdir(), key=lambda found: found.name):
        name = f"{path}/{one.name}"
        if one.is_dir():
            yield from _below(one, name)
        elif one.name.endswith(".py"):
            yield name, one.read_bytes()
