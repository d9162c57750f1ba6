"""The settings that a lake was built with, and the topics whose Kafka partitions it numbers.

Stored offsets and windows would mean something else under another grid, or if another partition had their number. So topics may
be added at the end of the list, and nothing else of them may change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from dts_assets.errors import IncompatibleLakeError
from dts_assets.errors.topics import OtherTopicsError
from dts_assets.store.lake import Lake
from dts_assets.store.schemas import RAW_WINDOWS

_SHAPE = "dts-assets.shape"
_FIRST_WINDOW = "dts-assets.first-window"
_TOPIC = "dts-assets.topic"
_PARTITIONS = "partitions"

Topics = tuple[tuple[str, int], ...]
"""Topics with their numbers of partitions, in the order of numbering: ``(("shop", 4), ("shop-ddl", 1))``."""


@dataclass(frozen=True, slots=True)
class LakeShape:
    """The facts of one subscription that its lake keeps for ever, as properties of ``raw_windows``.

    ``settings`` are the configured ones that may not change. ``names`` are the topics that the configuration names, none where it
    names none, and ``told`` says with how many partitions each, if it does.
    """

    lake: Lake
    subscription: str
    settings: Mapping[str, str | int]
    names: tuple[str, ...]
    told: Topics

    def check_settings(self) -> None:
        """Refuse settings that an existing lake was not built with; remember them in a new one. No source is asked.

        Raises:
            IncompatibleLakeError: The lake was built with another setting.
            OtherTopicsError: The lake was built with other topics.
        """
        properties = self.lake.ensure(self._path, RAW_WINDOWS).properties
        text = properties.get(_SHAPE)
        if text is None:
            self._remember(_SHAPE, json.dumps(self.settings))
            return
        stored, known = json.loads(text), tuple(_topics(properties))
        names = tuple(name for name, _ in known)
        if self.names and names != self.names[: len(names)]:
            raise OtherTopicsError(
                self.subscription, stored=_named(known), configured=_named(self.told) or ", ".join(self.names)
            )
        if len(self.told) > 1:
            self._compare(known, self.told)
        if known:
            configured = int(self.settings[_PARTITIONS])
            total = sum(partitions for _, partitions in known)
            # Topics that are added bring their partitions; how many, the source says.
            added = len(self.names) > len(known) and configured > total
            if len(known) > 1 and configured != total and not added:
                said = f"{', '.join(self.names or names)} with {configured} Kafka partitions in all"
                raise OtherTopicsError(self.subscription, stored=_named(known), configured=said)
            stored[_PARTITIONS] = configured if added else total
        for setting, configured_value in self.settings.items():
            if stored.get(setting) != configured_value:
                raise IncompatibleLakeError(
                    self.subscription, setting, stored=str(stored.get(setting)), configured=str(configured_value)
                )

    def check_topics(self, topics: Topics, first_of: Callable[[range], datetime | None]) -> None:
        """Refuse topics of the source that are not those of the lake, behind :meth:`check_settings`.

        Topics that were added are remembered, with the start of the first window in which they have messages. ``first_of``
        finds that of some Kafka partitions.

        Raises:
            OtherTopicsError: The lake was built with other topics.
        """
        known = tuple(_topics(self.lake.ensure(self._path, RAW_WINDOWS).properties))
        self._compare(known, topics)
        if len(known) < len(topics):
            self._add(topics, known, first_of)

    def _compare(self, known: Topics, topics: Topics) -> None:
        """Refuse topics that do not begin with the known ones.

        Raises:
            OtherTopicsError: They do not.
        """
        if topics and topics[: len(known)] != known:
            raise OtherTopicsError(self.subscription, stored=_named(known), configured=_named(topics))

    def first_window(self) -> datetime | None:
        """Return the stored start of the first window that counts, the earliest of all topics."""
        table = self.lake.table(self._path)
        found = [] if table is None else [table.properties.get(name) for name in self._first_names(table.properties)]
        return min((datetime.fromisoformat(text) for text in found if text is not None), default=None)

    def remember_first_window(self, start: datetime) -> None:
        """Keep the start of the first window of a new lake. The first writer wins."""
        self._remember(_FIRST_WINDOW, start.isoformat())

    def _add(self, topics: Topics, known: Topics, first_of: Callable[[range], datetime | None]) -> None:
        """Remember the topics behind the known ones.

        Raises:
            OtherTopicsError: Another process has added others meanwhile.
        """
        number = sum(partitions for _, partitions in known)
        for place, (_, partitions) in enumerate(topics[len(known) :], len(known)):
            # Of a lake that was made before topics were remembered, the first ones are old.
            first = first_of(range(number, number + partitions)) if known else None
            if first is not None:
                self._remember(f"{_FIRST_WINDOW}.{place}", first.isoformat())
            number += partitions
        self._remember_topics(topics, len(known))
        stored = tuple(_topics(self.lake.ensure(self._path, RAW_WINDOWS).properties))
        if stored[: len(topics)] != topics:
            raise OtherTopicsError(self.subscription, stored=_named(stored), configured=_named(topics))

    def _remember_topics(self, topics: Topics, first: int) -> None:
        for place, (name, partitions) in enumerate(topics[first:], first):
            self._remember(f"{_TOPIC}.{place}", json.dumps([name, partitions]))

    def _first_names(self, properties: Mapping[str, str]) -> Iterator[str]:
        yield _FIRST_WINDOW
        yield from (f"{_FIRST_WINDOW}.{place}" for place, _ in enumerate(_topics(properties)))

    def _remember(self, name: str, value: str) -> None:
        """Keep a fact in the properties of the raw ledger. The first writer wins."""
        self.lake.remember(self._path, RAW_WINDOWS, name=name, value=value)

    @property
    def _path(self) -> tuple[str, str]:
        return (self.subscription, "raw_windows")


def _topics(properties: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Yield the topics that a lake knows, in the order of numbering."""
    for place in count():
        text = properties.get(f"{_TOPIC}.{place}")
        if text is None:
            return
        name, partitions = json.loads(text)
        yield str(name), int(partitions)


def _named(topics: Topics) -> str:
    return ", ".join(f"{name} ({partitions})" for name, partitions in topics)
