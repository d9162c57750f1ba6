"""The one list of promises of the configuration that this version cannot keep yet.

The whole contract is checked from the first version on, so that a file stays valid. A feature that is not there yet is refused by
name and never ignored. To add a feature is to remove its line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dts_assets.settings.document import Place


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A key, its values that cannot be used yet, and a way out."""

    place: tuple[str, ...]
    asks_for_it: Callable[[Any], bool]
    what: str
    fix: str


UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported(
        ("lake", "catalog", "type"), lambda value: value in ("hive", "glue"), "this catalog", "use sqlite or rest"
    ),
)


def unsupported_in(values: Any) -> Iterator[tuple[Place, str, str]]:
    """Yield every place of a document that asks for an unsupported value, with a message and a fix."""
    for entry in UNSUPPORTED:
        value = _at(values, entry.place)
        if value is not None and entry.asks_for_it(value):
            yield entry.place, f"{entry.what} is not supported by this version yet", entry.fix


def supported_values(place: Place, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a key that this version can use: only they are worth suggesting."""
    refused = [entry.asks_for_it for entry in UNSUPPORTED if entry.place == place]
    return tuple(value for value in values if not any(asks(value) for asks in refused))


def _at(value: Any, place: tuple[str, ...]) -> Any:
    """Return the value at a place; None where there is none."""
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
