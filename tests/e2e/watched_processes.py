"""What other users of the machine may read of the processes that a test starts: their command lines."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from dts_emulator.live.process_guard import sweep

_TAG = "DTS_ASSETS_TEST_WATCHED"
_PAUSE = 0.02


@contextmanager
def watched_processes() -> Iterator[tuple[dict[str, str], set[str]]]:
    """Yield an environment, and the command lines that processes with it have had so far; all of them are ended at last."""
    name, seen, done = uuid4().hex, set[str](), threading.Event()
    tag = f"{_TAG}={name}".encode()

    def look() -> None:
        others: set[str] = set()  # whose environment is another one: it never changes
        while not done.wait(_PAUSE):
            for place in Path("/proc").iterdir():
                if place.name.isdigit() and place.name not in others:
                    with suppress(OSError):
                        if tag in (place / "environ").read_bytes().split(b"\0"):
                            seen.add((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                        else:
                            others.add(place.name)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield {**os.environ, _TAG: name}, seen
    finally:
        done.set()
        looking.join()
        sweep(f"{_TAG}={name}")


def files_with(folder: Path, marks: tuple[str, ...]) -> list[Path]:
    """Return the files below a folder that have one of the marks in them."""
    found = []
    for path in sorted(folder.rglob("*")):
        with suppress(OSError):
            content = path.read_bytes() if path.is_file() else b""
            found += [path] if any(mark.encode() in content for mark in marks) else []
    return found
