"""Leases: who may work on a part of a subscription, decided by an observer's own clock.

Clocks of different machines are never compared. A lease is over when it has not changed for a while of the observer's own
clock, or at once if its holder ran on this machine and is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dts_assets.model.ledger_rows import Lease
from dts_assets.model.turns import Process

EXPIRES_AFTER = 60.0
"""Seconds without a change after which a held lease is over."""

RENEWED_EVERY = 20.0
"""Seconds between two signs of life of a holder."""

KEPT_FOR = 60.0
"""Seconds for which a process keeps a lease that it does not use.

So a refresh soon after costs no commit.
"""

RESERVED_FOR = 5.0
"""Seconds for which a lease that was given back is kept for the process that wanted it."""


def is_gone(text: str, *, here: Process, started: Callable[[int], str | None]) -> bool:
    """Return whether a process surely runs no more.

    It ran on this machine, and its id is free or another's.

    ``started`` gives when the process of an id was started, None if there is none.
    """
    process = Process.of_text(text)
    if process is None or (process.boot, process.namespace) != (here.boot, here.namespace):
        return False
    return started(process.pid) != process.started


@dataclass(slots=True)
class Observed:
    """The leases as an observer has seen them, and since when each has not changed."""

    _since: dict[str, tuple[Lease, float]] = field(default_factory=dict)

    def see(self, leases: Iterable[Lease], now: float) -> None:
        """Take note of the leases as they are now."""
        for lease in leases:
            known = self._since.get(lease.part)
            sign = replace(lease, wanted_by=None)  # who waits gives no sign of life of the holder
            if known is None or known[0] != sign:
                self._since[lease.part] = (sign, now)

    def unchanged_for(self, part: str, now: float) -> float:
        """Return for how long a lease has not changed, at the least."""
        known = self._since.get(part)
        return 0.0 if known is None else now - known[1]


def may_take(lease: Lease | None, *, me: str, unchanged_for: float, gone: Callable[[str], bool]) -> bool:
    """Return whether a process may take a lease that it does not hold.

    ``gone`` says of a process whether it surely runs no more.
    """
    if lease is None:
        return True
    if lease.held:
        return unchanged_for >= EXPIRES_AFTER or gone(lease.holder)
    if lease.wanted_by is None or lease.wanted_by == me:
        return True
    return unchanged_for >= RESERVED_FOR or gone(lease.wanted_by)


def taken(leases: Mapping[str, Lease], parts: Iterable[str], *, me: str, name: str, now: datetime) -> dict[str, Lease]:
    """Return the leases after a process has taken some parts."""
    found = dict(leases)
    for part in parts:
        before = found.get(part)
        token = 1 if before is None else before.token + 1
        wanted = None if before is None or before.wanted_by == me else before.wanted_by
        found[part] = Lease(part, token, f"{token}-{name}", me, now, 0, held=True, wanted_by=wanted)
    return found


def wanted(
    leases: Mapping[str, Lease], parts: Iterable[str], *, me: str, gone: Callable[[str], bool]
) -> dict[str, Lease]:
    """Return the leases after a process has entered that it waits for some parts, unless another waits already."""
    found = dict(leases)
    for part in parts:
        lease = found.get(part)
        if lease is not None and (lease.wanted_by is None or gone(lease.wanted_by)):
            found[part] = replace(lease, wanted_by=me)
    return found


def renewed(leases: Mapping[str, Lease], names: Mapping[str, str]) -> dict[str, Lease]:
    """Return the leases after a sign of life of the holder, whose names by part are given."""
    return {
        part: replace(lease, beat=lease.beat + 1) if holds(lease, names.get(part)) else lease
        for part, lease in leases.items()
    }


def given_back(leases: Mapping[str, Lease], names: Mapping[str, str]) -> dict[str, Lease]:
    """Return the leases after the holder of some names by part has given them back."""
    return {
        part: replace(lease, held=False) if holds(lease, names.get(part)) else lease for part, lease in leases.items()
    }


def holds(lease: Lease | None, name: str | None) -> bool:
    """Return whether a lease is held under a name."""
    return lease is not None and lease.held and name is not None and lease.name == name
