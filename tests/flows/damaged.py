"""Damage that disks and people do to files: bytes that flip, files that are cut short, emptied or gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random


def flip(file: Path) -> None:
    """Change 400 bytes, or all of a small file's, by a fixed seed."""
    content, random = bytearray(file.read_bytes()), Random(7)
    for _ in range(400):
        content[random.randrange(len(content))] ^= random.randrange(1, 256)
    file.write_bytes(content)


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    file.unlink()


DAMAGES: Mapping[str, Callable[[Path], None]] = {"flipped": flip, "cut": cut, "empty": empty, "gone": remove}
