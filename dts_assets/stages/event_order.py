"""The rows of an event that came in pieces, in an order in which each is possible.

An UPDATE of many keys is one event, whose rows a topic may cut over its Kafka partitions by key. The order inside a piece is
known, the order between pieces is not: where 2 becomes 3 in one piece and 3 becomes 4 in another one, the second comes first.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from dts_assets.stages.keys import Numbers, as_numbers

POSITION_COLUMNS = ("lineage", "file", "position")
KEY_COLUMNS = ("old_key", "new_key")
"""The hashes of the keys between which a row moves; both are 0 where it stays."""


def in_possible_order(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield sorted rows, those of each event in an order in which all of them are possible.

    No row moves to a key that another row has yet to leave.
    The parts hold whole events together: the last event of one may go on in the next.
    """
    held: list[pa.Table] = []
    for part in parts:
        if not part.num_rows:
            continue
        bounds = _event_bounds(part)
        if held and _place(held[-1], -1) != _place(part, 0):
            yield _ordered(pa.concat_tables(held))
            held = []
        if len(bounds) > 1 or held:
            first, last = (int(bounds[0]) if held else 0), int(bounds[-1])
            if held and len(bounds) > 1:
                yield _ordered(pa.concat_tables([*held, part.slice(0, int(bounds[1]))]))
                held, first = [], int(bounds[1])
            if last > first:
                yield _ordered(part.slice(first, last - first))
            part = part.slice(last)
        held.append(part)
    if held:
        yield _ordered(pa.concat_tables(held))


def _place(rows: pa.Table, row: int) -> tuple[int, ...]:
    return tuple(rows[name][row].as_py() for name in POSITION_COLUMNS)


def _event_bounds(rows: pa.Table) -> Numbers:
    """Return the first row of each event."""
    columns = [as_numbers(rows[name]) for name in POSITION_COLUMNS]
    changes = np.logical_or.reduce([one[1:] != one[:-1] for one in columns])
    return np.append(0, np.flatnonzero(changes) + 1)


def _ordered(rows: pa.Table) -> pa.Table:
    """Return the rows of whole events in an order that is possible."""
    moves = np.flatnonzero(as_numbers(rows["old_key"]) != as_numbers(rows["new_key"]))
    if not len(moves):
        return rows
    bounds = np.append(_event_bounds(rows), rows.num_rows)
    partitions = as_numbers(rows["kafka_partition"])
    old, new = (as_numbers(rows[name]) for name in KEY_COLUMNS)
    order = np.arange(rows.num_rows)
    for event in np.unique(np.searchsorted(bounds, moves, side="right") - 1).tolist():
        inside = slice(int(bounds[event]), int(bounds[event + 1]))
        if len(np.unique(partitions[inside])) > 1:
            found = _one_event(partitions[inside].tolist(), old[inside].tolist(), new[inside].tolist())
            order[inside] = inside.start + np.asarray(found)
    return rows.take(pa.array(order))


def _one_event(partitions: Sequence[int], old: Sequence[int], new: Sequence[int]) -> list[int]:
    """Return the rows of an event in an order that is possible, if there is one."""
    pieces: dict[int, deque[int]] = defaultdict(deque)
    leaving: dict[int, int] = defaultdict(int)
    for row, partition in enumerate(partitions):
        pieces[partition].append(row)
        if old[row] != new[row]:
            leaving[old[row]] += 1
    found: list[int] = []
    ready, waiting = deque(pieces), defaultdict[int, list[int]](list)
    while ready or waiting:
        if not ready:  # a row that moves twice, or keys that are equal only to the server
            key = next(iter(waiting))
            partition = waiting[key].pop()
            found.append(_done(pieces[partition], old, new, leaving))
            ready += [partition, *(waiting.pop(key) if not leaving[key] else ())]
            waiting = defaultdict(list, {key: some for key, some in waiting.items() if some})
            continue
        partition = ready.popleft()
        piece = pieces[partition]
        while piece:
            row = piece[0]
            if old[row] != new[row] and leaving[new[row]]:
                waiting[new[row]].append(partition)
                break
            found.append(_done(piece, old, new, leaving))
            if old[row] != new[row] and not leaving[old[row]]:
                ready += waiting.pop(old[row], ())
    return found


def _done(piece: deque[int], old: Sequence[int], new: Sequence[int], leaving: dict[int, int]) -> int:
    """Take the first row of a piece."""
    row = piece.popleft()
    if old[row] != new[row]:
        leaving[old[row]] -= 1
    return row
