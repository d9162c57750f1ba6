"""Values of the configuration and how they are written: durations, instants, time zones, globs, secrets.

Each type turns text into a value and, where it cannot, says what is wrong and how to mend it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BeforeValidator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from dts_assets.model.columns import SIMPLE_TYPES, is_lake_type
from dts_assets.model.layouts import TRANSFORMS, column_name, partition_transform
from dts_assets.model.schema_policies import SchemaPolicy
from dts_assets.model.type_mappings import TypeMapping
from dts_assets.settings.document import WrittenFlag, WrittenFraction, WrittenWhole

_DURATION = re.compile(r"(\d+)(d|h|m|s)", re.ASCII)
_MOST_DIGITS = 9
_LONGEST = timedelta(days=1_000_000)
"""Durations are added to instants, and the sums have to be dates."""

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_OFFSET = re.compile(r"[+-](\d{2}):(\d{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DIGITS_OF_A_PORT, _LAST_PORT = 5, 65_535

VALUE = "{value}"
"""A stand-in, in a message, for the text that was written in the file.

It is filled in where the message is shown.
"""


def mistake(message: str, fix: str, *, at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """Return the exception that a check raises.

    ``at`` leads from the place being checked to the place that is wrong.
    """
    return PydanticCustomError("mistake", "{message}", {"message": message, "fix": fix, "at": at})


def instead(written: str, allowed: tuple[str, ...]) -> str:
    """Return the fix for a word that is not allowed: the closest allowed word, or all of them."""
    close = difflib.get_close_matches(written, allowed, n=1)
    return f"did you mean {close[0]}?" if close else f"write one of {', '.join(allowed)}"


def duration_of(text: object) -> timedelta:
    """Return ``1h``, ``10m``, ``30s``, ``1d`` as a duration.

    Raises:
        mistake: the text is no duration, or a duration too long.
    """
    if isinstance(text, timedelta):
        return text
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise mistake(f"{VALUE} is no duration", "write a whole number and a unit: 30s, 10m, 1h or 1d")
    digits, unit = found.groups()
    duration = int(digits) * _UNITS[unit] if len(digits) <= _MOST_DIGITS else timedelta.max
    if duration > _LONGEST:
        raise mistake(f"{VALUE} is too long", f"write a duration of at most {_LONGEST.days}d")
    return duration


def duration_text(duration: timedelta) -> str:
    """Return a duration as it is written, in the largest unit that divides it.

    It is the inverse of :func:`duration_of`.
    """
    for name, unit in _UNITS.items():
        if duration % unit == timedelta(0) and (duration or name == "s"):
            return f"{duration // unit}{name}"
    return f"{duration.total_seconds()}s"


def instant_of(text: object) -> datetime:
    """Return ``2026-01-05T00:00Z`` as an instant in UTC; any offset may be written, none may be left out.

    Raises:
        mistake: the text is no time, or has no time zone.
    """
    fix = "write date, time and zone: 2026-01-05T00:00Z"
    try:
        instant: Any = datetime.fromisoformat(text) if isinstance(text, str) else text
        if instant.tzinfo is not None:
            return cast("datetime", instant.astimezone(UTC))
    except (ValueError, OverflowError, AttributeError):  # no time, a time beyond all calendars, something else
        raise mistake(f"{VALUE} is no time", fix) from None
    raise mistake(f"{VALUE} has no time zone", fix)


def zone_name(text: str) -> str:
    """Return an offset, ``+08:00``, or the IANA name of a time zone, ``Asia/Shanghai``, as it is.

    Raises:
        mistake: the text is no time zone.
    """
    if not _is_zone(text):
        raise mistake(f"{VALUE} is no time zone", 'write an offset, "+08:00", or a name, Asia/Shanghai')
    return text


def _is_zone(text: str) -> bool:
    if found := _OFFSET.fullmatch(text):
        hours, minutes = map(int, found.groups())
        return minutes <= 59 and hours * 60 + minutes <= 14 * 60  # the widest offset in use is +14:00
    try:
        ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        return False
    return True


def divides_a_day(every: timedelta) -> timedelta:
    """Return a window's length that divides an hour in minutes or a day in hours.

    Every day has the same windows then, keys are minutes, and a cron schedule can say where windows begin (it cannot for 90
    minutes).

    Raises:
        mistake: windows of that length do not fill a day evenly.
    """
    minute, hour, day = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
    of_an_hour = minute <= every <= hour and not hour % every and not every % minute
    of_a_day = hour <= every <= day and not day % every and not every % hour
    if not (of_an_hour or of_a_day):
        raise mistake(
            f"windows of {VALUE} do not fill a day evenly",
            "choose a length of 1m to 1d that divides an hour or is hours that divide a day: 15m, 1h, 6h",
        )
    return every


def is_aligned(instant: datetime, every: timedelta) -> bool:
    """Tell whether windows of a length, counted from midnight UTC, have a border at ``instant``."""
    return (instant - _EPOCH) % every == timedelta(0)


def is_port(text: str) -> bool:
    """Tell whether a text is the number of a port: 1 to 65535."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_OF_A_PORT and 1 <= int(text) <= _LAST_PORT


def column_of(text: str) -> str:
    """Return a column of a table, ``shopdb.orders.note``, with all parts of the table's name.

    Raises:
        mistake: a part is missing.
    """
    parts = text.split(".")
    if len(parts) < 3 or not all(parts):
        raise mistake("the key names no column", "write database, table and column: shopdb.orders.note")
    return text


def glob_of(text: object) -> str:
    """Return a glob per name part, ``shopdb.*`` or ``sales.public.orders``; ``*`` alone is every table.

    Raises:
        mistake: the text names no tables.
    """
    if isinstance(text, str):
        parts = text.split(".")
        # No table of MySQL ends with a space; any other white space may stand there.
        if text == "*" or (len(parts) in (2, 3) and all(part and part == part.strip(" ") for part in parts)):
            return text
    raise mistake(
        f"{VALUE} names no tables",
        'write database and table with a dot between them, "shopdb.orders" or "shopdb.*" (with a schema: '
        '"db.schema.table"); "*" alone is every table',
    )


def lake_type_of(text: object) -> str:
    """Return a column type of the lake, ``decimal(10,2)``.

    Raises:
        mistake: the text is no column type.
    """
    if isinstance(text, str) and is_lake_type(text):
        return text
    raise mistake(
        f"{VALUE} is no column type of the lake", f"write one of {', '.join(sorted(SIMPLE_TYPES))}, decimal(p,s)"
    )


def partition_field_of(text: object) -> str:
    """Return a partition field of a snapshot, ``months(created_at)``, as it is.

    Raises:
        mistake: the text is no partition field.
    """
    if isinstance(text, str) and partition_transform(text) is not None:
        return text
    raise mistake(f"{VALUE} is no partition field", f"write one of {', '.join(TRANSFORMS)}")


def sort_column_of(text: object) -> str:
    """Return the name of a column as it is.

    Raises:
        mistake: the text is no name of a column.
    """
    if isinstance(text, str) and column_name(text) is not None:
        return text
    raise mistake(f"{VALUE} is no column", "write the name of a column, in backquotes if it has other characters")


class Hidden(Mapping[str, str]):
    """Keys and values that are passed on as they are.

    They are connection settings, catalog properties and Spark configuration. They may hold passwords, so neither ``repr`` nor
    ``str`` nor a dump of the settings shows a value; a value is read by its key alone. Numbers and flags are the text that was
    written.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values.items())))

    def __repr__(self) -> str:
        return f"Hidden({', '.join(sorted(self._values))})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        value = core_schema.no_info_plain_validator_function(_passed_on)
        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.dict_schema(cls._keys(), value),
            serialization=core_schema.plain_serializer_function_ser_schema(sorted),
        )

    @classmethod
    def _keys(cls) -> CoreSchema:
        """Return the check of keys."""
        return core_schema.str_schema()

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _passed_on(value: object) -> str:
    if isinstance(value, WrittenWhole | WrittenFraction | WrittenFlag):
        return value.text
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise mistake("the value is no text, number or flag", "write one value")


Duration = Annotated[
    timedelta,
    BeforeValidator(duration_of),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^(\d+[dhms]|\$\{.+\})$", "examples": ["1h", "10m"]}),
]
Instant = Annotated[
    datetime,
    BeforeValidator(instant_of),
    WithJsonSchema({"type": "string", "examples": ["2026-01-05T00:00Z"]}),
]
Glob = Annotated[str, BeforeValidator(glob_of), WithJsonSchema({"type": "string", "examples": ["shopdb.*"]})]


_HOW = {"enum": ["hard", "soft"]}


def _of_every_table(value: object) -> object:
    """Return one value as that of every table: ``soft`` as ``{"*": "soft"}``.

    Raises:
        mistake: the text says neither.
    """
    if not isinstance(value, str):
        return value
    if value not in _HOW["enum"]:
        raise mistake(
            f"{VALUE} says nothing of deleted rows", "write hard or soft, or a mapping of tables to one of them"
        )
    return {"*": value}


_CHANGES = {"enum": [str(one) for one in SchemaPolicy]}


def _policy_of_every_table(value: object) -> object:
    """Return one policy as that of every table: ``keep`` as ``{"*": "keep"}``.

    Raises:
        mistake: the text is no policy.
    """
    if not isinstance(value, str):
        return value
    if value not in _CHANGES["enum"]:
        raise mistake(
            f"{VALUE} says nothing of schema changes", f"write {_POLICIES}, or a mapping of tables to one of them"
        )
    return {"*": value}


_POLICIES = "follow, keep, freeze or stop"

_MAPPINGS: dict[str, object] = {"type": "array", "items": {"enum": [str(one) for one in TypeMapping]}}


def _mappings_of_every_table(value: object) -> object:
    """Return a list as that of every table: ``[to-string]`` as ``{"*": ["to-string"]}``.

    Raises:
        mistake: the value is neither a list nor a mapping.
    """
    if isinstance(value, str):
        raise mistake(
            f"{VALUE} is one word", f"write a list, [{', '.join(TypeMapping)}], or a mapping of tables to lists"
        )
    return {"*": value} if isinstance(value, list | tuple) else value


TypeMappings = Annotated[
    dict[Glob, tuple[TypeMapping, ...]],
    BeforeValidator(_mappings_of_every_table),
    WithJsonSchema({"anyOf": [_MAPPINGS, {"type": "object", "additionalProperties": _MAPPINGS}]}),
]
Deletes = Annotated[
    dict[Glob, Literal["hard", "soft"]],
    BeforeValidator(_of_every_table),
    WithJsonSchema({"anyOf": [_HOW, {"type": "object", "additionalProperties": _HOW}]}),
]
SchemaChanges = Annotated[
    dict[Glob, SchemaPolicy],
    BeforeValidator(_policy_of_every_table),
    WithJsonSchema({"anyOf": [_CHANGES, {"type": "object", "additionalProperties": _CHANGES}]}),
]
PartitionField = Annotated[
    str, BeforeValidator(partition_field_of), WithJsonSchema({"type": "string", "examples": list(TRANSFORMS)})
]
SortColumn = Annotated[str, BeforeValidator(sort_column_of), WithJsonSchema({"type": "string"})]
ColumnName = Annotated[str, AfterValidator(column_of)]
LakeType = Annotated[
    str,
    BeforeValidator(lake_type_of),
    WithJsonSchema(
        {"anyOf": [{"enum": sorted(SIMPLE_TYPES)}, {"type": "string", "pattern": r"^decimal\(\d+, ?\d+\)$"}]}
    ),
]
