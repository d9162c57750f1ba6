"""Sets of global transaction ids, in MySQL's words and in MariaDB's.

MySQL names a transaction ``uuid:7``, since 8.4 also ``uuid:tag:7``, and a set ``uuid:1-13:15:tag:1-3,uuid2:1-4`` (MySQL
Reference Manual, "GTID Format and Storage"). MariaDB names a transaction ``domain-server-sequence`` and counts the sequence per
domain, whichever server writes; a position ``0-1-100,1-2-7`` stands for everything up to these in their domains (MariaDB
documentation, "Global Transaction ID"). Both become intervals of numbers per source: the uuid, with its tag, or the domain.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Interval: TypeAlias = tuple[int, int]
"""First and last number, both included."""

MOST_DIGITS = 18
MOST_NAME = 100
"""The most characters of a server's name: a uuid has 36 and a tag 32."""

SERVER_AND_NUMBER = rf"(?P<server>.{{1,{MOST_NAME}}})[:-](?P<number>[0-9]{{1,{MOST_DIGITS}}})"
"""The pattern of a GTID as the name of its server and its number.

The number fits 64 bits. Columns of texts are matched by it, too.
"""

_SERVER_AND_NUMBER = re.compile(SERVER_AND_NUMBER)
_LARGEST = (1 << 64) - 1
_UUID = re.compile(r"\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?", re.ASCII)
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.ASCII)
_INTERVAL = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?", re.ASCII)
_DOMAIN = re.compile(r"\d{1,10}", re.ASCII)
_LAST_NUMBER = re.compile(rf"(?:\d+-)?(\d{{1,{MOST_DIGITS}}})", re.ASCII)
_MARIADB = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})", re.ASCII)


@dataclass(frozen=True, slots=True)
class GtidSet:
    """A set of transactions: ascending sources, each with ascending intervals that neither overlap nor touch.

    Make one with :meth:`parse` or :meth:`of`. The texts of the two dialects do not mix in one stream, nor in one set.
    """

    sources: tuple[tuple[str, tuple[Interval, ...]], ...] = ()

    @classmethod
    def of(cls, intervals: Iterable[tuple[str, int, int]]) -> GtidSet:
        """Return the set of intervals ``(source, first, last)``, in any order, overlapping or not.

        ``("0", 1, 100)`` are the first hundred transactions of a domain. Sources are named as by :func:`gtid_source`.

        Raises:
            ValueError: No GTID has a number of the interval, or sources of both dialects are given.
        """
        found: dict[str, list[Interval]] = {}
        for source, first, last in intervals:
            if not 1 <= first <= last <= _LARGEST:
                raise ValueError(
                    f"{first}-{last} is no interval of GTIDs: write first-last, the first number being 1 or greater"
                )
            found.setdefault(source, []).append((first, last))
        return cls._of({source: _merged(sorted(mine)) for source, mine in found.items()})

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Return the set that a text of either dialect describes; the empty text is the empty set.

        ``domain-server-sequence`` stands for all transactions up to it in its domain. ``domain:5-9`` is the text that
        :meth:`__str__` writes for a MariaDB set: MariaDB has no text for an interval that does not begin at 1.

        Raises:
            ValueError: The text is no set of GTIDs, or mixes the dialects.
        """
        parts = [part.strip() for part in text.split(",")]
        if parts == [""]:
            return cls()
        return cls.of(interval for part in parts for interval in _intervals(part))

    @classmethod
    def _of(cls, sources: Mapping[str, tuple[Interval, ...]]) -> GtidSet:
        held = tuple(sorted((source, intervals) for source, intervals in sources.items() if intervals))
        kinds = {is_domain(source) for source, _ in held}
        if len(kinds) > 1:
            raise ValueError("GTIDs of MySQL and of MariaDB do not mix in one set: one stream has one source")
        return cls(held)

    def __str__(self) -> str:
        by_uuid: dict[str, list[str]] = {}
        for source, intervals in self.sources:
            uuid, _, tag = source.partition(":")
            texts = [str(first) if first == last else f"{first}-{last}" for first, last in intervals]
            by_uuid.setdefault(uuid, [uuid]).extend([tag, *texts] if tag else texts)
        return ",".join(":".join(parts) for parts in by_uuid.values())

    def __bool__(self) -> bool:
        return bool(self.sources)

    def __or__(self, other: GtidSet) -> GtidSet:
        mine, theirs = dict(self.sources), dict(other.sources)
        both = {source: _merged(sorted((*mine.get(source, ()), *theirs.get(source, ())))) for source in mine | theirs}
        return self._of(both)

    def __sub__(self, other: GtidSet) -> GtidSet:
        self._of(dict(self.sources[:1] + other.sources[:1]))  # refuses a set of the other dialect
        theirs = dict(other.sources)
        return self._of({source: _without(mine, theirs.get(source, ())) for source, mine in self.sources})

    def holds(self, source: str, number: int) -> bool:
        """Return whether the transaction of a source and number is in the set."""
        intervals = self.of_source(source)
        at = bisect_right(intervals, (number, _LARGEST)) - 1
        return at >= 0 and intervals[at][1] >= number

    def covers(self, other: GtidSet) -> bool:
        """Return whether every transaction of ``other`` is in the set.

        Raises:
            ValueError: The sets are of different dialects.
        """
        return not other - self

    def of_source(self, source: str) -> tuple[Interval, ...]:
        """Return the intervals of one source; empty for a source that is not in the set."""
        return dict(self.sources).get(source, ())

    def intervals(self) -> Iterator[tuple[str, int, int]]:
        """Yield ``(source, first, last)``, ascending."""
        return ((source, first, last) for source, mine in self.sources for first, last in mine)

    @property
    def count(self) -> int:
        """The number of transactions in the set."""
        return sum(last - first + 1 for _, first, last in self.intervals())

    @property
    def holes(self) -> GtidSet:
        """The transactions that are missing between the least and the greatest number of each source."""
        return self._of(
            {source: _without(((mine[0][0], mine[-1][1]),), mine) for source, mine in self.sources},
        )


def gtid_source(text: str) -> str:
    """Return the source that a GTID without its number names: ``uuid``, ``uuid:tag`` or a domain.

    It is ``0`` for ``0-1``, a domain and a server: MariaDB counts transactions per domain.

    Raises:
        ValueError: The text is neither ``uuid``, ``uuid:tag`` nor ``domain-server``.
    """
    domain, dash, server = text.partition("-")
    if dash and _DOMAIN.fullmatch(domain) and _DOMAIN.fullmatch(server):
        return str(int(domain))
    uuid, colon, tag = text.partition(":")
    return _source(uuid, tag) if colon else _source(uuid)


def parse_gtid(text: str) -> tuple[str, int]:
    """Return the source and the number of a GTID: ``("0", 812)`` for ``0-1-812``.

    Raises:
        ValueError: The text is a set, or no GTID.
    """
    mariadb = _MARIADB.fullmatch(text)
    if mariadb:
        return str(int(mariadb[1])), int(mariadb[3])
    prefix, _, number = text.rpartition(":")
    if not prefix or not _INTERVAL.fullmatch(number) or "-" in number:
        raise ValueError(f"{text!r} is no GTID: neither uuid:number nor domain-server-sequence")
    return (str(int(prefix)) if is_domain(prefix) else gtid_source(prefix)), int(number)


def server_and_number(text: str) -> tuple[str, int] | None:
    """Return the server and number of a GTID: ``("uuid:tag", 7)``; None for another text.

    Unlike :func:`parse_gtid` the server is kept as it is written: lineages tell binlogs of one MariaDB domain apart by it.
    """
    found = _SERVER_AND_NUMBER.fullmatch(text)
    return (found["server"], int(found["number"])) if found else None


def greatest_numbers(gtid_set: str) -> dict[str, int]:
    """Return the greatest number of every server in the text of a GTID set: ``{"0-1": 812}``.

    Servers are named as by :func:`server_and_number`.
    """
    found: dict[str, int] = {}
    for part in (one.strip() for one in gtid_set.split(",")):
        uuid, *rest = part.split(":") if ":" in part else part.rsplit("-", 1)
        if len(uuid) > MOST_NAME:  # with each of many tags it would be a text of its own
            continue
        server = uuid
        for one in rest:
            number = _LAST_NUMBER.fullmatch(one)
            if number:
                found[server] = max(found.get(server, -1), int(number[1]))
            else:
                server = f"{uuid}:{one}"
    return found


def is_domain(source: str) -> bool:
    """Return whether a source is a domain of MariaDB; otherwise it is a uuid of MySQL."""
    return len(source) <= 10 and source.isdecimal()


def _source(uuid: str, tag: str | None = None) -> str:
    groups = _UUID.fullmatch(uuid.lower())
    if not groups:
        raise ValueError(f"{uuid!r} is no source of GTIDs: neither a uuid nor domain-server")
    if tag is None:
        return "-".join(groups.groups())
    if not _TAG.fullmatch(tag.lower()):
        raise ValueError(f"{tag!r} is no tag of GTIDs: at most 32 letters, digits and underscores")
    return f"{'-'.join(groups.groups())}:{tag.lower()}"


def _intervals(part: str) -> Iterator[tuple[str, int, int]]:
    """Yield ``(source, first, last)`` of one part of a set's text.

    Raises:
        ValueError: The text is no set of GTIDs.
    """
    mariadb = _MARIADB.fullmatch(part)
    if mariadb:
        if int(mariadb[3]):  # sequence 0 is a domain in which nothing has happened
            yield str(int(mariadb[1])), 1, int(mariadb[3])
        return
    uuid, *rest = (one.strip() for one in part.split(":"))
    if not rest:
        raise ValueError(f"{part!r} is no set of GTIDs: neither uuid:1-5 nor domain-server-sequence")
    source, awaited = (str(int(uuid)) if is_domain(uuid) else _source(uuid)), True
    for one in rest:
        numbers = _INTERVAL.fullmatch(one)
        if numbers:
            yield source, int(numbers[1]), int(numbers[2] or numbers[1])
        elif is_domain(uuid):
            raise ValueError(f"{one!r} is no interval of GTIDs, and domains have no tags")
        else:
            source = _source(uuid, one)
        awaited = not numbers
    if awaited:
        raise ValueError(f"{part!r} ends in a tag without numbers")


def _merged(ascending: Iterable[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, last in ascending:
        if merged and first <= merged[-1][1] + 1:
            if last > merged[-1][1]:
                merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _without(mine: tuple[Interval, ...], theirs: tuple[Interval, ...]) -> tuple[Interval, ...]:
    left: list[Interval] = []
    at = 0
    for interval in mine:
        first, last = interval
        while at < len(theirs) and theirs[at][1] < first:
            at += 1
        ahead = at
        while ahead < len(theirs) and theirs[ahead][0] <= last:
            if theirs[ahead][0] > first:
                left.append((first, theirs[ahead][0] - 1))
            first = theirs[ahead][1] + 1
            ahead += 1
        if first <= last:
            left.append((first, last))
    return tuple(left)
