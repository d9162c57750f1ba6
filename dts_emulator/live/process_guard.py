"""A process that ends the processes of a supervisor which was killed and could not do it itself.

``python process_guard.py TAG`` reads its standard input until whoever holds the other end is gone, then ends every process of
this machine that was started with ``TAG`` in its environment: also one that left its process group, or whose parent has ended.
It needs ``/proc``; elsewhere it finds nothing. Only the standard library is imported, and nothing of this package: it sits there
all the time.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_PATIENCE = 3.0
_PROCESSES = Path("/proc")


def tagged(tag: str) -> set[int]:
    """Return the living processes that were started with ``tag`` in their environment, without this one."""
    wanted = tag.encode()
    found: set[int] = set()
    if not _PROCESSES.is_dir():
        return found
    for place in _PROCESSES.iterdir():
        # A process may end while it is looked at, and those of others may not be looked at.
        with suppress(OSError):
            if place.name.isdigit() and wanted in (place / "environ").read_bytes().split(b"\0"):
                found.add(int(place.name))
    return found - {os.getpid()}


def end(processes: Collection[int], sign: signal.Signals) -> None:
    """Send a signal to processes, some of which may have ended meanwhile."""
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, sign)


def sweep(tag: str, *, patience: float = _PATIENCE) -> set[int]:
    """End all tagged processes, with TERM and after ``patience`` seconds with KILL; return those that are left.

    A process that has ended has no environment any more, so those that nobody has waited for yet are not counted.
    """
    for sign in (signal.SIGTERM, signal.SIGKILL):
        end(tagged(tag), sign)
        deadline = time.monotonic() + patience
        while tagged(tag) and time.monotonic() < deadline:
            time.sleep(0.05)
            if sign is signal.SIGKILL:
                end(tagged(tag), sign)  # what was started by one that is dead now
    return tagged(tag)


def main() -> int:
    """Wait, then sweep."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)  # it ends when the other end does, and not before
    while os.read(0, 4096):
        pass
    return 1 if sweep(sys.argv[1]) else 0


if __name__ == "__main__":
    sys.exit(main())
