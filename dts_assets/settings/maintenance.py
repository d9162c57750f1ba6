"""Maintenance in the configuration: its time, its steps, and the ages and sizes that these go by."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema, field_validator

from dts_assets.model.byte_sizes import UNITS, exact_size
from dts_assets.model.maintenance import USUAL_STEPS, Step
from dts_assets.settings.places import Part, default_duration
from dts_assets.settings.values import VALUE, Duration, mistake

_SIZE = re.compile(r"(\d{1,12})\s*([KMGT]?B)", re.IGNORECASE)
_CRON_FIELD = re.compile(r"[0-9A-Za-z*/,\-]+")
_A_DAY = timedelta(days=1)


def bytes_of(text: object) -> int:
    """Return ``500GB``, ``20 MB`` or a number of bytes as bytes: the inverse of ``exact_size``.

    Raises:
        mistake: The text is no size.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        raise mistake(f"{VALUE} is no size", "write a whole number and a unit: 500MB, 20GB or 1TB")
    return int(found[1]) * UNITS[found[2].upper()]


Size = Annotated[
    int,
    BeforeValidator(bytes_of),
    PlainSerializer(exact_size, return_type=str),
    WithJsonSchema(
        {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"^(\d+ ?[KMGTkmgt]?[Bb]|\$\{.+\})$"}]}
    ),
]


def _cron(text: str) -> str:
    fields = text.split()
    if len(fields) != 5 or not all(map(_CRON_FIELD.fullmatch, fields)):
        raise mistake(f"{VALUE} is no schedule", 'write five fields of cron, in UTC: "30 3 * * *"')
    return " ".join(fields)


class Maintenance(Part):
    """The maintenance of a subscription's tables."""

    schedule: Annotated[str, AfterValidator(_cron)] | None = Field(
        None,
        description="When it is done, in five fields of cron and UTC; without it the schedule stands in the UI, switched off.",
    )
    steps: tuple[Step, ...] = Field(
        USUAL_STEPS,
        min_length=1,
        description="The steps of a scheduled run: retention, tags, compaction, sorting, expiry, orphans.",
    )
    expire_after: Duration | None = Field(
        None,
        description="The age from which old versions of tables go; without it 2d, or 30m where windows are followed live.",
    )
    keep_versions: int = Field(100, ge=1, description="The newest versions of a table that stay however old they are.")
    orphans_after: Duration = default_duration(
        "3d", "The age from which files that no version names are removed, at least a day."
    )
    other_tables: Literal["all", "near"] = Field(
        "all",
        description="The other tables of the catalog that are read before files go: all, or those that share a folder with ours.",
    )
    tags_after: Duration | None = Field(
        None, description="The age from which tags of moments go, those named cut-...; without it all stay."
    )
    tags_size: Size | None = Field(
        None, description="The bytes that versions may hold for tags of moments alone; the oldest moments go first."
    )

    @field_validator("orphans_after")
    @classmethod
    def _at_least_a_day(cls, age: timedelta) -> timedelta:
        if age < _A_DAY:
            raise mistake(
                f"{VALUE} is less than a day, and a run may write files for long before it commits them",
                "write 1d or more",
            )
        return age
