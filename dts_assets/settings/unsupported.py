"""The one list of promises of the configuration that this version cannot keep yet.

The whole contract is checked from the first version on, so that a file stays valid. A feature that is not there yet is refused by
name and never ignored. To add a feature is to remove its line here; formats leave the list when a package registers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dts_assets.model.formats import PLANNED_FORMATS
from dts_assets.settings.document import Place
from dts_assets.settings.formats import registered_formats


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A key (``*``: any subscription), its values that cannot be used yet, and a way out."""

    place: tuple[str, ...]
    asks_for_it: Callable[[Any], bool]
    what: str
    fix: str | Callable[[], str]


ANY = "*"
_SUBSCRIPTION = ("subscriptions", ANY)

UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported(
        ("lake", "catalog", "type"), lambda value: value in ("hive", "glue"), "this catalog", "use sqlite or rest"
    ),
    Unsupported(
        (*_SUBSCRIPTION, "format"),
        lambda value: value in PLANNED_FORMATS and value not in registered_formats(),
        "this format",
        lambda: f"use one of {', '.join(registered_formats())}",
    ),
)


def unsupported_in(values: Any) -> Iterator[tuple[Place, str, str]]:
    """Yield every place of a document that asks for an unsupported value, with a message and a fix."""
    for entry in UNSUPPORTED:
        for place, value in _at(values, entry.place):
            if value is not None and entry.asks_for_it(value):
                fix = entry.fix if isinstance(entry.fix, str) else entry.fix()
                yield place, f"{entry.what} is not supported by this version yet", fix


def supported_values(place: Place, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a key that this version can use: only they are worth suggesting."""
    refused = [entry.asks_for_it for entry in UNSUPPORTED if _is_at(entry.place, place)]
    return tuple(value for value in values if not any(asks(value) for asks in refused))


def _is_at(pattern: tuple[str, ...], place: Place) -> bool:
    return len(pattern) == len(place) and all(part in (ANY, found) for part, found in zip(pattern, place, strict=True))


def _at(value: Any, place: tuple[str, ...]) -> Iterator[tuple[Place, Any]]:
    """Yield the values at a place, as many as ``*`` stands for."""
    if not place:
        yield (), value
    elif isinstance(value, Mapping):
        for key in value if place[0] == ANY else [place[0]]:
            yield from (((key, *rest), found) for rest, found in _at(value.get(key), place[1:]))
