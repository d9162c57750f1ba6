"""Two flows at once, in a chosen order: each stops before and after every commit and reading, and one of them goes on.

Nothing keeps them apart: they hold no lease, and tables are not locked.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import pytest
from pyiceberg.table import Table

from dts_assets.errors import DtsAssetsError
from dts_assets.errors.windows import NotReadyError
from dts_assets.flows import turns
from dts_assets.model.turns import Turn
from dts_assets.store import commit
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger


class Killed(BaseException):
    """Stands for the end of a process; nothing may catch it."""


@dataclass
class Schedule:
    """Which of two flows goes on at each stop.

    ``overtaken_at`` is the stop of the first flow at which the second one runs from its begin to its end; without it a seed
    decides, ``switch`` being how likely a change is. ``kill`` is how likely a flow ends at a stop for good.
    """

    seed: int = 0
    overtaken_at: int | None = None
    switch: float = 0.5
    kill: float = 0.0
    errors: list[BaseException] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._turn = threading.Condition()
        self._alive: list[int] = []
        self._next = 0
        self._me = threading.local()

    def run(self, *flows: Callable[[], object]) -> None:
        """Run flows as threads, one at a time, until all have ended; errors other than refusals are raised."""
        threads = [threading.Thread(target=self._one, args=(number, flow)) for number, flow in enumerate(flows)]
        self._alive = list(range(len(flows)))
        self._next = 0 if self.overtaken_at is not None else self._random.choice(self._alive)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), f"seed {self.seed} hangs: {self.log[-10:]}"
        for error in self.errors:
            if not isinstance(error, Killed | NotReadyError) and not (
                isinstance(error, DtsAssetsError) and error.retriable
            ):
                raise error

    def stop(self, where: str) -> None:
        """Let the flow chosen next go on; another may be chosen, and this one may end here."""
        number = getattr(self._me, "number", None)
        if number is None:
            return  # not one of the flows
        with self._turn:
            self.log.append(f"{number} {where}")
            if self.kill and self._random.random() < self.kill:
                raise Killed
            self._next = self._chosen(number)
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._next == number)

    def _chosen(self, number: int) -> int:
        others = [one for one in self._alive if one != number]
        if self.overtaken_at is None:
            change = self._random.random() < self.switch
        else:
            change = number == 0 and len(self.log) == self.overtaken_at
        return others[0] if change and others else number

    def _one(self, number: int, flow: Callable[[], object]) -> None:
        self._me.number = number
        with self._turn:
            self._turn.wait_for(lambda: self._next == number)
        try:
            flow()
        except BaseException as error:
            self.errors.append(error)
        finally:
            with self._turn:
                self._alive.remove(number)
                if self._alive:
                    self._next = self._alive[0]
                self._turn.notify_all()


@contextmanager
def nothing_keeps_them_apart(schedule: Schedule) -> Iterator[None]:
    """Stop flows at every commit and at what they read before, without leases and locks."""
    numbers = iter(range(1, 10_000))
    commit_before = Table._do_commit

    def committing(table: Table, updates: Any, requirements: Any) -> None:
        name = ".".join(table.name())
        schedule.stop(f"before {name}")
        commit_before(table, updates, requirements)
        schedule.stop(f"after {name}")

    def stopping(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def instead(*args: Any, **kwargs: Any) -> Any:
            schedule.stop(name)
            return original(*args, **kwargs)

        patch.setattr(owner, name, instead)

    @contextmanager
    def own_turn(pipeline: Any, parts: Any, progress: Any) -> Iterator[Turn]:
        pipeline.check_shape()
        number = next(numbers)
        yield Turn({part: f"{number}-made-up" for part in parts})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_do_commit", committing)
        patch.setattr(turns, "_turn", own_turn)
        patch.setattr(commit, "table_lock", lambda table: nullcontext())
        for one in _cached_properties():
            patch.setattr(one, "lock", nullcontext(), raising=False)
        for owner, name in ((Lake, "data_files"), (Lake, "state"), (Ledger, "_read")):
            stopping(owner, name)
        # One commit after the other: more threads would have no number.
        patch.setattr("dts_assets.flows.apart.SIDE_BY_SIDE", 1)
        for module in ("apart", "spark_tasks", "compaction"):
            patch.setattr(f"dts_assets.flows.{module}.ThreadPoolExecutor", _InThisThread)
        yield


def _cached_properties() -> Iterator[cached_property[Any]]:
    """The cached properties of the product: up to Python 3.11 each has one lock for all instances, and a flow may stop within."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dts_assets"):
            owners = [one for one in vars(module).values() if isinstance(one, type)]
            yield from (one for owner in owners for one in vars(owner).values() if isinstance(one, cached_property))


class _InThisThread:
    """A pool that works in the thread that asks it."""

    def __init__(self, workers: int) -> None: ...

    def __enter__(self) -> _InThisThread:
        return self

    def __exit__(self, *error: object) -> None: ...

    def map(self, work: Callable[..., Any], *items: Any) -> list[Any]:
        return [work(*some) for some in zip(*items, strict=True)]

    def submit(self, work: Callable[..., Any], *args: Any) -> Any:
        from concurrent.futures import Future

        done: Future[Any] = Future()
        done.set_result(work(*args))
        return done
