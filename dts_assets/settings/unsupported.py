"""What the configuration can say and this version cannot do yet: the one list of it.

The whole contract is checked from the first version on, so that a file stays valid. What is not there yet is refused by name and
never ignored. To add a feature is to remove its line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dts_assets.settings.document import Place


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A key (below a subscription), the values of it that cannot be used yet, and what to write instead."""

    place: tuple[str, ...]
    asks_for_it: Callable[[Any], bool]
    what: str
    fix: str


UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported(
        ("format",),
        lambda value: value in ("dts-avro", "dts-json", "drs-avro", "drs-json", "drs-json-c"),
        "this format",
        "use dts-protobuf",
    ),
    Unsupported(
        ("source", "kafka"), bool, "a Kafka broker as the source", "record a capture and name it under capture"
    ),
    Unsupported(("history",), bool, "history", "remove the key"),
    Unsupported(("sql", "tables"), bool, "sql", "remove the key"),
    Unsupported(("window", "live"), lambda value: value is True, "refreshing the open window", "say live: false"),
)


def unsupported_in(values: Any) -> Iterator[tuple[Place, str, str]]:
    """Every place of a document that asks for something of the list, with a message and a fix."""
    subscriptions = values.get("subscriptions") if isinstance(values, Mapping) else None
    for name, subscription in subscriptions.items() if isinstance(subscriptions, Mapping) else ():
        for entry in UNSUPPORTED:
            value = _at(subscription, entry.place)
            if value is not None and entry.asks_for_it(value):
                yield (
                    ("subscriptions", name, *entry.place),
                    f"{entry.what} is not supported by this version yet",
                    entry.fix,
                )


def _at(value: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
