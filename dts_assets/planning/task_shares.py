"""The division of files among the tasks that read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Protocol, TypeVar

TASKS_PER_CORE = 2
"""At least so many tasks for each core to share, if there are so many files."""

TASK_BYTES = 8 << 20
"""Stored bytes of small windows that one task takes together: about a chunk when they are unpacked."""


class SizedFile(Protocol):
    """A file in the store: its path and its bytes."""

    @property
    def path(self) -> str:
        """The path of the file."""

    @property
    def bytes(self) -> int:
        """The size of the file."""


_File = TypeVar("_File", bound=SizedFile)


def by_size(files: Iterable[_File], most: int) -> list[list[_File]]:
    """Return files in groups of at most so many bytes, or of one file; the smallest come first."""
    groups: list[list[_File]] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.bytes, file.path)):
        if not groups or size + file.bytes > most:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return groups


def shared_files(
    windows: Mapping[datetime, Sequence[tuple[tuple[str, ...], int]]], *, cores: int
) -> Iterator[tuple[tuple[str, ...], dict[datetime, int]]]:
    """Yield the share of each task: its paths and its bytes by window, ``(("a.parquet",), {start: 7})``.

    ``windows`` has the files of each cell in offset order, with their bytes, by window: ``{start: [(("a.parquet",), 7)]}``. They
    stay in one task and in this order. ``cores`` tasks run at once. A large window is cut
    into several tasks if there are few windows. Small windows share a task, since a chunk of many windows is decoded and
    counted in about the time of one.
    """
    total = sum(size for files in windows.values() for _, size in files)
    tasks = TASKS_PER_CORE * cores
    most = min(TASK_BYTES, total // tasks)
    paths: list[str] = []
    sizes: dict[datetime, int] = {}
    for start, files in sorted(windows.items()):
        parts = _parts(files, max(1, tasks // len(windows)))
        for group, size in parts:
            if paths and (len(parts) > 1 or sum(sizes.values()) + size > most):
                yield tuple(paths), sizes
                paths, sizes = [], {}
            paths += group
            sizes[start] = sizes.get(start, 0) + size
    if paths:
        yield tuple(paths), sizes


def _parts(cells: Iterable[tuple[tuple[str, ...], int]], most: int) -> list[tuple[list[str], int]]:
    """Return the files of cells in at most ``most`` groups of about one size, with their sizes."""
    sizes = [0] * most
    groups: list[list[tuple[str, ...]]] = [[] for _ in range(most)]
    for paths, size in sorted(cells, key=lambda cell: (-cell[1], cell[0])):
        number = min(range(most), key=sizes.__getitem__)
        sizes[number] += size
        groups[number].append(paths)
    return [([*chain.from_iterable(sorted(some))], size) for some, size in zip(groups, sizes, strict=True) if some]
