"""Leases of a process: taken before work, kept between pieces of work, given back when somebody waits.

They keep work from being done twice. What protects data are the assertions of commits (:mod:`dts_assets.store.turns`): a
process that was stopped for minutes goes on without knowing that its lease is another's.

A keeper has the leases of one subscription in one process. One thread of the process renews the leases of all keepers, one
commit for each subscription, and gives back those that are not in use and wanted by another process.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

from dts_assets.errors import OvertakenError, StaleGenerationError
from dts_assets.model.ledger_rows import Lease
from dts_assets.model.turns import Process, Turn
from dts_assets.planning.leases import (
    EXPIRES_AFTER,
    KEPT_FOR,
    RENEWED_EVERY,
    Observed,
    given_back,
    holds,
    is_gone,
    may_take,
    renewed,
    taken,
    wanted,
)
from dts_assets.store.lake import Lake
from dts_assets.store.ledger import Ledger
from dts_assets.store.processes import elapsed, started_at, this_process

LOOK_EVERY = 2.0
"""Seconds between two looks whether somebody waits for a lease that is kept without being used."""

_ASK_EVERY = 0.5
"""Seconds between two looks of a process that waits."""

OnWait: TypeAlias = Callable[[str], None]
"""Takes one line for a person about who is waited for."""


@dataclass(slots=True)
class _Kept:
    """A lease of this process: its name, and when it was used last."""

    name: str
    used_at: float


class LeaseKeeper:
    """The leases of one subscription in one process."""

    def __init__(
        self,
        ledger: Ledger,
        subscription: str,
        *,
        me: Process,
        started: Callable[[int], str | None],
        clock: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ledger = ledger
        self._subscription = subscription
        self._me = me
        self._gone = partial(is_gone, here=me, started=started)
        self._clock = clock
        self._sleep = sleep
        self._state = threading.Condition(threading.RLock())
        self._busy: set[str] = set()
        self._kept: dict[str, _Kept] = {}
        self._observed = Observed()
        self._renewed_at = self._looked_at = clock()

    @contextmanager
    def hold(self, parts: Sequence[str], on_wait: OnWait) -> Iterator[Turn]:
        """Hold the leases of some parts for a piece of work; others who have them are waited for.

        All are taken at once, so that two processes never wait for each other.
        """
        with self._state:
            if self._busy.intersection(parts):
                on_wait(f"{self._subscription}: another run of this process works on the same; waiting for it to end")
            self._state.wait_for(lambda: not self._busy.intersection(parts))
            self._busy.update(parts)
        try:
            names = self._take(parts, on_wait)
            yield Turn(names, partial(self._still, names))
        finally:
            with self._state:
                self._busy.difference_update(parts)
                for part in parts:
                    if part in self._kept:
                        self._kept[part].used_at = self._clock()
                self._state.notify_all()
            with suppress(Exception):  # the thread gives it back, or it expires
                self._look(renew=False)

    def tick(self) -> None:
        """Renew the leases if it is time, and give back those that are wanted and not in use.

        Those that were not used for long are given back, too.
        """
        with self._state:
            due = self._clock() - self._renewed_at >= RENEWED_EVERY
            if self._kept and (due or self._kept.keys() - self._busy):
                self._look(renew=due)

    def give_all_back(self) -> None:
        """Give back all leases, as at the end of the process."""
        with self._state:
            leases, base = self._read()
            self._commit(given_back(leases, self._names()), leases, base)
            self._kept.clear()

    def _take(self, parts: Sequence[str], on_wait: OnWait) -> dict[str, str]:
        """Return the names under which the parts are held, once they are."""
        said = False
        with self._state:
            names = self._names()
            if names.keys() >= set(parts) and self._clock() - self._looked_at < RENEWED_EVERY:
                return {part: names[part] for part in parts}
        while True:
            with self._state:
                leases, base = self._read()
                names = self._names()
                missing = [part for part in parts if part not in names]
                if not missing:
                    return {part: names[part] for part in parts}
                blocked = [part for part in missing if not self._may_take(leases.get(part), part)]
                if not blocked:
                    new = taken(leases, missing, me=str(self._me), name=uuid.uuid4().hex[:8], now=datetime.now(UTC))
                    if self._commit(new, leases, base):
                        self._kept |= {part: _Kept(new[part].name, self._clock()) for part in missing}
                        self._renewed_at = self._clock()
                    continue
                self._commit(wanted(leases, blocked, me=str(self._me), gone=self._gone), leases, base)
            if not said:
                on_wait(_waiting_for(leases[blocked[0]]))
                said = True
            self._sleep(_ASK_EVERY)

    def _may_take(self, lease: Lease | None, part: str) -> bool:
        unchanged = self._observed.unchanged_for(part, self._clock())
        return may_take(lease, me=str(self._me), unchanged_for=unchanged, gone=self._gone)

    def _still(self, names: Mapping[str, str]) -> None:
        """Raise an error if a lease is another's; one not renewed for long is looked at.

        Raises:
            OvertakenError: A lease is not this process's any more.
        """
        with self._state:
            if self._clock() - self._renewed_at >= EXPIRES_AFTER:
                self._look(renew=True)
            now = self._names()
            for part, name in names.items():
                if now.get(part) != name:
                    raise OvertakenError(self._subscription, part)

    def _look(self, *, renew: bool) -> None:
        """Give back what is wanted and not in use; renew the others if asked to.

        It is one commit.
        """
        with self._state:
            leases, base = self._read()
            now = self._clock()
            back = {
                part: kept.name
                for part, kept in self._kept.items()
                if part not in self._busy and (leases[part].wanted_by is not None or now - kept.used_at >= KEPT_FOR)
            }
            stay = {part: name for part, name in self._names().items() if part not in back}
            new = given_back(renewed(leases, stay) if renew else leases, back)
            if self._commit(new, leases, base):
                for part in back:
                    del self._kept[part]
                if renew:
                    self._renewed_at = now

    def _read(self) -> tuple[dict[str, Lease], tuple[str, ...]]:
        """Return the leases by part and the files they stand in; leases that are another's now are forgotten."""
        rows, base = self._ledger.leases()
        leases = {row.part: row for row in rows}
        self._looked_at = self._clock()
        self._observed.see(rows, self._clock())
        for part in [part for part, kept in self._kept.items() if not holds(leases.get(part), kept.name)]:
            del self._kept[part]
        return leases, base

    def _commit(self, new: Mapping[str, Lease], old: Mapping[str, Lease], base: Sequence[str]) -> bool:
        """Write leases if they differ; return False if somebody else was faster."""
        if new == old:
            return True
        try:
            self._ledger.replace_leases([new[part] for part in sorted(new)], base=base)
        except StaleGenerationError:
            return False
        return True

    def _names(self) -> dict[str, str]:
        return {part: kept.name for part, kept in self._kept.items()}


def _waiting_for(lease: Lease) -> str:
    """Return the line that says who is waited for."""
    part = "the tables" if lease.part == "tables" else lease.part
    if not lease.held:
        return f"{part}: another run waits for it already; waiting for its turn"
    process = Process.of_text(lease.holder)
    who = lease.holder if process is None else process.shown
    return f"{part}: another run works on it ({who}, since {lease.since.isoformat(timespec='seconds')}); waiting for it to end"


def keeper(lake: Lake, subscription: str) -> LeaseKeeper:
    """Return the keeper of a subscription's leases in this process."""
    with _REGISTRY.lock:
        key = (lake.location.warehouse, tuple(sorted(lake.location.properties.items())), subscription)
        found = _REGISTRY.keepers.get(key)
        if found is None:
            ledger = Ledger(lake.catalog, subscription)
            found = LeaseKeeper(ledger, subscription, me=this_process(), started=started_at, clock=elapsed)
            _REGISTRY.keepers[key] = found
        _REGISTRY.start()
        return found


class _Registry:
    """All keepers of this process, and the thread that looks after them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at_work = threading.RLock()
        """Held while the thread reads and writes leases; a fork waits for it."""
        self.keepers: dict[tuple[object, ...], LeaseKeeper] = {}
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, name="dts-assets-leases", daemon=True)
            self.thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_EVERY)
            for one in list(self.keepers.values()):
                with self.at_work, suppress(Exception):  # a catalog that does not answer; what is not renewed expires
                    one.tick()

    def end(self) -> None:
        """Give all leases back, so that nobody waits for a process that has ended."""
        for one in list(self.keepers.values()):
            with suppress(Exception):
                one.give_all_back()


_REGISTRY = _Registry()
_FORK_WAITS = 10.0
"""Seconds for which a fork waits for the thread. A catalog may keep the thread waiting for longer."""


def _hold_still() -> None:
    """Hold the thread between two looks while this process is forked.

    A lock that the thread holds stays locked in the new process for ever. SQLite, forked amid a transaction, waits there for the
    whole of its time-out (60 s) for a lock that nobody holds.
    """
    _REGISTRY.at_work.acquire(timeout=_FORK_WAITS)


def _go_on() -> None:
    with suppress(RuntimeError):  # the thread was waited for in vain
        _REGISTRY.at_work.release()


def forget_leases() -> None:
    """Begin anew: in a forked process the leases are those of the process before."""
    global _REGISTRY
    _REGISTRY = _Registry()


os.register_at_fork(before=_hold_still, after_in_parent=_go_on, after_in_child=forget_leases)
atexit.register(lambda: _REGISTRY.end())
