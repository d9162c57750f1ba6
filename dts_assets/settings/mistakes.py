"""The errors of pydantic as mistakes with a line and a way to mend them.

No message ever shows a value: it shows the text that stands in the file, where ``${NAME}`` is still ``${NAME}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from dts_assets.errors import ConfigMistake
from dts_assets.settings.document import Document, Place
from dts_assets.settings.formats import registered_formats
from dts_assets.settings.models import HIDDEN_KEYS, Settings
from dts_assets.settings.unsupported import supported_values
from dts_assets.settings.values import VALUE, instead

_MAPPING = ("a mapping is wanted here", "write one `key: value` a line below it")
_FLAG = (f"{VALUE} is neither true nor false", "write true or false")
_WHOLE = (f"{VALUE} is no whole number", "write a whole number")

_KINDS = {
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type", "mapping_type"), _MAPPING),
    **dict.fromkeys(("bool_type", "bool_parsing"), _FLAG),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    "tuple_type": ("a list is wanted here", 'write it as ["..."], or one `- ...` a line'),
    "string_type": ("a text is wanted here", "write one text; put quotes around it if it looks like a number"),
    "path_type": ("a path is wanted here", "write one text"),
    "string_too_short": ("the text is empty", "write a value"),
    "too_short": ("nothing is listed", "list at least one"),
    "string_pattern_mismatch": ("the text has another form than it should", "write sc://host:15002"),
}


_EXPECTED = re.compile(r"'([^']*)'")
"""The values in pydantic's words: ``'hard' or 'soft'``."""


def mistake_of(error: ErrorDetails, document: Document) -> tuple[Place, ConfigMistake]:
    """Return an error as a mistake, with the place in the file that it is about."""
    place: Place = tuple(part for part in error["loc"] if part != "[key]")
    if place[:3] == ("lake", "catalog", "properties"):
        place = (*place[:2], *place[3:])  # in the file they stand beside the type
    if place[-1:] == ("schema_file",):
        place = (*place[:-1], "schema")  # pydantic names a key that is not there by its field
    context: Mapping[str, Any] = error.get("ctx", {})
    if error["type"] == "mistake":
        for part in context["at"]:
            place = place[:-1] if part == ".." else (*place, part)
        message, fix = context["message"], context["fix"]
    elif error["type"] == "missing":
        message, fix = f"{place[-1]} is missing", _example(place)
    elif error["type"] == "extra_forbidden":
        message, fix = "no such key", instead(str(place[-1]), keys_at(place[:-1]))
    elif error["type"] in ("literal_error", "enum"):
        # Values within a list or a mapping of tables have no field of their own.
        named = tuple(_EXPECTED.findall(context["expected"]))
        allowed = supported_values(place, choices_at(place) or named)
        message, fix = f"{VALUE} is none of its values", instead(document.written.get(place, ""), allowed)
    elif error["type"] in ("greater_than_equal", "less_than_equal"):
        message, fix = f"{VALUE} is out of range", _range_of(place)
    else:
        message, fix = _KINDS.get(error["type"], ("the value cannot be used", "see `dts-assets config schema`"))
    message = message.replace(VALUE, _quoted(document.written.get(place)))
    return place, document.mistake(place, message, fix)


def _quoted(written: str | None) -> str:
    if not written:
        return "the value"
    return f'"{written}"' if len(written) <= 60 and written.isprintable() else "the long text here"


_EXAMPLES = {
    "warehouse": "warehouse: ./lake",
    "lake": "lake: {warehouse: ./lake}",
    "subscriptions": "subscriptions: and below it one topic by name",
    "source": "source: {capture: ./examples/shop}",
    "path": "path: ./examples/shop",
    "partitions": "partitions: and the number of Kafka partitions of the topic",
    "window": "window: {every: 1h, start: 2026-01-05T00:00Z}",
    "every": "every: 1h",
    "start": "start: 2026-01-05T00:00Z",
    "bootstrap_servers": "bootstrap_servers: host:9092",
    "topics": 'topics: ["..."]',
}


def _example(place: Place) -> str:
    key = str(place[-1])
    if key == "format":
        return f"write format: and one of {', '.join(registered_formats())}"
    return f"write {_EXAMPLES.get(key, f'{key}: and its value')}"


def _range_of(place: Place) -> str:
    return "write a number from 1 to 100" if place[-1] == "partitions" else "write 0 or more"


def keys_at(place: Place) -> tuple[str, ...]:
    """Return the keys that may stand in the mapping at a place."""
    return tuple(str(key) for key in _fields_at(place) if key not in HIDDEN_KEYS)


def choices_at(place: Place) -> tuple[str, ...]:
    """Return the values that a key with a fixed list of them may have."""
    field = _fields_at(place[:-1]).get(place[-1])
    return tuple(map(str, get_args(field.annotation))) if field else ()


def _fields_at(place: Place) -> Mapping[str | int, FieldInfo]:
    """Return the fields of the mapping at a place, by the keys that they have in the file."""
    fields, within = _fields_of(Settings), False
    for part in place:
        if within:  # the name of a subscription, or a glob
            within = False
            continue
        annotation = fields[part].annotation if part in fields else None
        within = get_origin(annotation) is dict
        inner = [kind for kind in _kinds_in(annotation) if issubclass(kind, BaseModel)]
        fields = _fields_of(inner[0] if inner else None)
    return fields


def _kinds_in(annotation: Any) -> list[type]:
    """Return the classes in an annotation: of ``dict[str, Annotated[Rule, ...]]`` these are str and Rule."""
    arguments = [kind for one in get_args(annotation) for kind in _kinds_in(one)]
    return [annotation, *arguments] if isinstance(annotation, type) and not arguments else arguments


def _fields_of(model: type[BaseModel] | None) -> Mapping[str | int, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()} if model else {}
