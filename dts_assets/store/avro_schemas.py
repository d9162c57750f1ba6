"""The schemas of manifests, parsed once in a process.

pyiceberg parses the schema of each manifest and manifest list, and makes a reader for it, again and again: that is nearly all of
the millisecond and a half that a small one takes, and a commit reads about seven. All of a lake have the same few schemas. This
is not pyiceberg's documented interface; a test pins it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pyiceberg.avro import file as avro
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.schema import Schema

_KEPT = 500
"""The most schemas and readers that are kept.

Each partition spec has one of either, and they take some 50 KB.
"""

_TEXT = "avro.schema"
_READERS = ("resolve_reader", "construct_reader")
_LOCK = threading.Lock()
_DONE: list[bool] = []

Made = TypeVar("Made")


def parse_schemas_once() -> None:
    """Let pyiceberg keep the schemas of Avro files, and its readers for them."""
    with _LOCK:
        if not _DONE:
            _DONE.append(True)
            AvroFileHeader.get_schema = _schemas(AvroFileHeader.get_schema)  # type: ignore[method-assign, assignment]
            for name in _READERS:
                setattr(avro, name, _Readers(getattr(avro, name)))


def _schemas(parse: Callable[[AvroFileHeader], Schema]) -> Callable[[AvroFileHeader], Schema]:
    """Return a function that parses each text of a schema once."""
    known: dict[str, Schema] = {}

    def get_schema(header: AvroFileHeader) -> Schema:
        text = header.meta.get(_TEXT)
        if text is None:
            return parse(header)
        found = known.get(text)
        return _keep(known, text, parse(header)) if found is None else found

    return get_schema


class _Readers:
    """Makes one reader for the same schemas, types and enums. A reader has no state."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._known: dict[tuple[object, ...], tuple[Any, ...]] = {}

    def __call__(self, *arguments: Any) -> Any:
        # Schemas have no hash. They are held beside their reader, so that no other object gets the id of one.
        key = tuple(tuple(one.items()) if isinstance(one, dict) else id(one) for one in arguments)
        found = self._known.get(key) or _keep(self._known, key, (self._make(*arguments), arguments))
        return found[0]


def _keep(known: dict[Any, Made], key: object, made: Made) -> Made:
    """Return what is kept under a key, which is ``made`` unless another thread was faster."""
    if len(known) >= _KEPT:
        known.clear()
    return known.setdefault(key, made)
