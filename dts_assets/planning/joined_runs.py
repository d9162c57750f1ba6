"""Runs that go on from each other, joined to one, and CHECKPOINTs between which others stand.

A joined run leaves every rule of planning in the state in which its parts leave it, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dts_assets.model.gtids import greatest_numbers, server_and_number
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import Run, SeenCheckpoint, ServerRange
from dts_assets.model.witnesses import join_witnesses

_MOST_RUNS = 64
"""The most runs of a Kafka partition that cannot be joined.

With more of them days are kept as they are.
"""


def join_runs(runs: Iterable[Run]) -> tuple[Run, ...] | None:
    """Return runs in their order, neighbours of one shard joined where they can be.

    The result is None if too many are left.
    """
    found: dict[str, list[Run]] = {}
    for run in runs:
        mine = found.setdefault(run.shard, [])
        mine.append(run)
        while len(mine) > 1 and (one := _joined(mine[-2], mine[-1])) is not None:
            mine[-2:] = [one]
    left = [run for mine in found.values() for run in mine]
    if len(left) > _MOST_RUNS or any(run.broken for run in left):
        return None
    return tuple(sorted(left, key=lambda run: run.first_offset))


def _joined(one: Run, other: Run) -> Run | None:
    """Return two runs as one that leaves every rule in the state in which the two leave it.

    The result is None if there is no such run.
    """
    alike = one.server_id == other.server_id and _has_gtid(one) == _has_gtid(other)
    forward = other.first >= one.first and other.first_time >= one.first_time
    if not alike or not forward or one.broken or other.broken:
        return None
    servers = {of.server: of for of in one.servers}
    if one.last_offset != other.last_offset:
        servers = {server: of if of.in_last is None else replace(of, in_last=-1) for server, of in servers.items()}
    for of in other.servers:
        known = servers.get(of.server)
        servers[of.server] = of if known is None else _joined_range(known, of)
    # Where transactions of a server stand is compared over Kafka partitions: the greatest place has to stay.
    for server, at in (*_places(one), *_places(other)):
        begun = servers[server].begun
        if begun is None or begun < at:
            return None
    return replace(
        one,
        last_offset=other.last_offset,
        last=max(one.last, other.last),
        last_time=max(one.last_time, other.last_time),
        servers=tuple(servers[server] for server in sorted(servers)),
        repeats=one.repeats + other.repeats,
    )


def _joined_range(known: ServerRange, other: ServerRange) -> ServerRange:
    goes_on = other.last >= known.last and (other.begun is not None or other.last > known.last)
    begun = other.begun if goes_on else known.begun
    places = [one.witnesses or () for one in ((known, other) if goes_on else (other, known))]
    bounds = min(known.first, other.first), max(known.last, other.last)
    in_last = None if known.in_last is None or other.in_last is None else max(known.in_last, other.in_last)
    return ServerRange(known.server, *bounds, begun, join_witnesses(*places) or None, in_last)


def _places(run: Run) -> Iterator[tuple[str, SourcePosition]]:
    """Yield the positions at which transactions of each server are known to stand."""
    for of in run.servers:
        if len(run.servers) == 1:
            yield of.server, run.first
        if of.begun is not None:
            yield of.server, of.begun


def _has_gtid(run: Run) -> bool:
    return server_and_number(run.gtid or "") is not None


def least_and_greatest(checkpoints: Iterable[SeenCheckpoint]) -> tuple[SeenCheckpoint, ...] | None:
    """Return for each shard the CHECKPOINTs with the least and the greatest GTID set.

    The result is None where sets have no such order.
    """
    bounds: dict[str, tuple[SeenCheckpoint, SeenCheckpoint]] = {}
    fake = False
    for one in checkpoints:
        fake |= one.fake_gtid
        least, greatest = bounds.get(one.shard, (one, one))
        if _holds(one, greatest):
            bounds[one.shard] = least, one
        elif _holds(least, one):
            bounds[one.shard] = one, greatest
        elif not (_holds(one, least) and _holds(greatest, one)):
            return None
    found = [one for least, greatest in bounds.values() for one in dict.fromkeys((least, greatest))]
    return tuple(replace(one, fake_gtid=fake) for one in found)


def _holds(one: SeenCheckpoint, other: SeenCheckpoint) -> bool:
    """Return whether a CHECKPOINT counts every transaction that another one counts."""
    mine, theirs = greatest_numbers(one.gtid_set or ""), greatest_numbers(other.gtid_set or "")
    return all(mine.get(server, -1) >= number for server, number in theirs.items())
