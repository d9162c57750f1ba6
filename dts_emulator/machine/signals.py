"""The signals INT, TERM and HUP, which end a process of the laboratory."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def ended_by_signals() -> threading.Event:
    """Return an event that is set when this process is to end: at INT (Ctrl-C) and TERM."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    return ended


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Run a block that TERM and a closed terminal leave as Ctrl-C does.

    So a block that started processes ends them.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {sign: signal.signal(sign, interrupt) for sign in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
