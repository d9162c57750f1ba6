"""The options, timings and last line that the commands of all benchmarks share.

It imports the standard library alone: benchmarks measure the memory and the start of processes that import it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


class Options(argparse.ArgumentParser):
    """The options of one benchmark. The description is the first line of the module's docstring."""

    def __init__(self, benchmark: str, docstring: str | None) -> None:
        super().__init__(prog=f"python -m benchmarks.{benchmark}", description=(docstring or "").split("\n")[0])

    def add_cases(self, names: Iterable[str]) -> None:
        """Add ``--case NAME``, which can be repeated; ``chosen.case`` is None for all cases."""
        self.add_argument("--case", action="append", choices=list(names), help="only this case; repeatable")

    def add_turns(self, default: int) -> None:
        """Add ``--turns``: how often each way runs."""
        self.add_argument("--turns", type=int, default=default, help=f"how often each way runs (default {default})")

    def add_megabytes(self, default: int, what: str = "of payload") -> None:
        """Add ``--megabytes``, the size of the traffic."""
        self.add_argument("--megabytes", type=int, default=default, help=f"{what} (default {default})")

    def add_tables(self, tables: int, *, columns: int | None = None) -> None:
        """Add ``--tables``, and ``--columns`` where the traffic has a choice of them."""
        self.add_argument("--tables", type=int, default=tables, help=f"default {tables}")
        if columns is not None:
            self.add_argument("--columns", type=int, default=columns, help=f"of a table on average (default {columns})")

    def add_seed(self) -> None:
        """Add ``--seed`` of the traffic: fresh values unless a seed is asked for."""
        fresh = time.time_ns() % 1_000_000
        self.add_argument("--seed", type=int, default=fresh, help="of the traffic (default: a new one)")

    def add_live(self, *, seconds: float, rate: int, tables: int, window: str, what: str) -> None:
        """Add the options of a benchmark that runs a live stack; ``what`` is the help of ``--seconds``."""
        self.add_argument("--seconds", type=float, default=seconds, help=f"{what} (default {seconds:.0f})")
        self.add_argument("--rate", type=int, default=rate, help=f"row changes per second (default {rate})")
        self.add_tables(tables)
        self.add_argument("--window", default=window, help=f"length of a window (default {window})")
        self.add_argument("--keep", type=Path, help="a folder to keep lake and logs in (default: a temporary one)")


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    print(line, flush=True)


def finish(benchmark: str, ratios: Mapping[str, float], figures: Mapping[str, Any]) -> None:
    """Print the last line: ``{"benchmark": "decode", "ratios": {"1t-5c-1r": 5.25}, "figures": {}}``."""
    say(json.dumps({"benchmark": benchmark, "ratios": ratios, "figures": figures}))


def load() -> list[float]:
    """Return the machine's load averages of 1, 5 and 15 minutes, such as ``[1.5, 1.2, 0.9]``."""
    return [round(one, 1) for one in os.getloadavg()]


def processor_seconds(way: Callable[[], Any]) -> float:
    """Return the processor time of one call, without what the garbage collector would take of it."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    result = way()
    took = time.process_time() - start
    gc.enable()
    del result
    return took


def least_in_turns(ways: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Return the least processor time of each way, such as ``{"loop": 1.5, "ours": 0.3}``; the ways take turns."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(turns):
        for name, way in ways.items():
            best[name] = min(best[name], processor_seconds(way))
    return best
