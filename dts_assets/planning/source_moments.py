"""Moments of a source as people write them: a position, a GTID, a time or a window.

``0:4:1187`` (lineage, binlog file, position), ``mysql-bin.000004:1187`` or the id ``4711`` is a position, ``uuid:5`` or ``0-1-5``
a GTID, ``2026-01-05T07:30`` a time in UTC and ``2026-01-05-07:00`` a window by its partition key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from dts_assets.model.frontier import Frontier
from dts_assets.model.gtids import parse_gtid
from dts_assets.model.positions import SourcePosition, file_number
from dts_assets.model.windows import KEY_FORMAT

_NUMBERS = re.compile(r"(?:(?P<lineage>\d{1,9}):)?(?P<file>\d{1,18}):(?P<position>\d{1,19})", re.ASCII)
_NAMED = re.compile(r"(?:(?P<lineage>\d{1,9}):)?(?P<file>[^:,]+\.\d{1,18})[:,]\s*(?P<position>\d{1,19})", re.ASCII)
_ID = re.compile(r"\d{1,19}", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LARGEST = (1 << 63) - 1

FORMS = "a position (0:4:1187), a GTID (uuid:5 or 0-1-5), a time (2026-01-05T07:30) or a window (2026-01-05-07:00)"


@dataclass(frozen=True, slots=True)
class AtPosition:
    """A source position; ``lineage`` is None where it was not written."""

    lineage: int | None
    file: int
    position: int


@dataclass(frozen=True, slots=True)
class AtGtid:
    """The end of a transaction: ``gtid`` is its text."""

    gtid: str


@dataclass(frozen=True, slots=True)
class AtTime:
    """An instant, in UTC."""

    time: datetime


@dataclass(frozen=True, slots=True)
class AtWindow:
    """The end of the window with this start."""

    start: datetime


Moment: TypeAlias = AtPosition | AtGtid | AtTime | AtWindow


def moment_of(text: str) -> Moment:
    """Return the moment that a person means.

    A time without a zone is UTC. A day is its first instant, also where a GTID of MariaDB would look like it.

    Raises:
        ValueError: The text is none of these; the error says which forms there are.
    """
    text = text.strip()
    with suppress(ValueError):
        return AtWindow(datetime.strptime(text, KEY_FORMAT).replace(tzinfo=UTC))
    if found := _NUMBERS.fullmatch(text) or _NAMED.fullmatch(text):
        lineage, name = found["lineage"], found["file"]
        return _position(
            None if lineage is None else int(lineage),
            int(name) if name.isdigit() else file_number(name),
            int(found["position"]),
        )
    if _ID.fullmatch(text):
        return _position(None, 0, int(text))
    if "T" in text or " " in text or _DAY.fullmatch(text):
        with suppress(ValueError):
            time = datetime.fromisoformat(text)
            return AtTime(time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC))
    elif "-" in text:
        with suppress(ValueError):
            parse_gtid(text)
            return AtGtid(text)
    raise ValueError(f"{text} is no moment; write {FORMS}")


def position_of(moment: AtPosition, lineages: Collection[int]) -> SourcePosition:
    """Return a position that was written with or without its lineage; ``lineages`` are those of the lake.

    Raises:
        ValueError: There is no such lineage, or none is written and the lake has several.
    """
    known = sorted(lineages) or [0]
    if moment.lineage is None and len(known) > 1:
        raise ValueError(
            f"the source has had {len(known)} lineages ({known[0]} to {known[-1]}), so say which one: "
            f"{known[-1]}:{moment.file}:{moment.position}"
        )
    lineage = known[0] if moment.lineage is None else moment.lineage
    if lineage not in known:
        raise ValueError(f"there is no lineage {lineage}; there are {', '.join(map(str, known))}")
    return SourcePosition(lineage, moment.file, moment.position)


def complete_until(frontier: Frontier, seen: Sequence[tuple[datetime, SourcePosition]]) -> SourcePosition | None:
    """Return the greatest position up to which everything is stored; None where nothing is.

    It is the cut. Where windows count as a whole it is also the greatest position ``seen`` in them, each with its window's start.
    """
    held = [position for start, position in seen if frontier.holds(start, position)]
    return max((*held, *(() if frontier.cut is None else (frontier.cut,))), default=None)


def _position(lineage: int | None, file: int, position: int) -> AtPosition:
    if position > _LARGEST:
        raise ValueError(f"{position} is no position: it has more than 63 bits")
    return AtPosition(lineage, file, position)
