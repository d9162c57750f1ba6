"""The ages and sizes of messages and entries in the configuration, from which on they leave the lake."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, ValidationInfo, field_validator

from dts_assets.model.formats import ChangeOrder
from dts_assets.settings.formats import registered_formats, traits_of
from dts_assets.settings.maintenance import Size
from dts_assets.settings.places import Part
from dts_assets.settings.values import VALUE, Duration, mistake

_A_DAY = timedelta(days=1)


class MessageRetention(Part):
    """The ages and sizes from which on the rows of closed windows leave ``raw_envelopes`` and ``entries``."""

    raw: Duration | None = Field(None, description="How long messages stay as they came; without it all stay.")
    entries: Duration | None = Field(
        None, description="How long entries stay, at least as long as messages; without it all stay."
    )

    raw_size: Size | None = Field(
        None, description="The most bytes that messages may take; the oldest days go first. Without it all stay."
    )
    entries_size: Size | None = Field(
        None, description="The most bytes that entries may take; only entries whose messages are gone go."
    )

    @field_validator("raw", "entries")
    @classmethod
    def _at_least_a_day(cls, age: timedelta | None) -> timedelta | None:
        if age is not None and age < _A_DAY:
            raise mistake(f"{VALUE} is less than a day, and rows are removed by whole days", "write 1d or more")
        return age

    @field_validator("entries_size")
    @classmethod
    def _behind_any_messages(cls, size: int | None, info: ValidationInfo) -> int | None:
        told = info.data
        if size is not None and told.get("raw", 0) is None and told.get("raw_size", 0) is None:
            raise mistake("entries are removed only where messages are removed, too", "add raw: or raw_size:")
        return size

    @field_validator("entries")
    @classmethod
    def _behind_messages(cls, age: timedelta | None, info: ValidationInfo) -> timedelta | None:
        raw = info.data.get("raw")
        if age is not None and "raw" in info.data:
            if raw is None:
                raise mistake("entries are removed only where messages are removed, too", "add raw: with an age")
            if age < raw:
                raise mistake(f"{VALUE} is less than the age of raw", "write at least the age of raw")
        return age


def checked_ages(ages: MessageRetention, format_name: str | None) -> MessageRetention:
    """Return the ages, if a format can do without old entries.

    Where messages carry ids, old contents tell later whether a task was made anew: an id that comes again is compared with them.

    Raises:
        mistake: Entries may be needed later.
    """
    known = format_name is not None and format_name in registered_formats()
    told = next((name for name in ("entries", "entries_size") if getattr(ages, name) is not None), None)
    if told is not None and known and traits_of(str(format_name)).order is ChangeOrder.MESSAGE_ID:
        raise mistake(
            f"entries of {format_name} cannot be removed: when ids begin again, messages are compared with all entries before",
            "leave out the key; raw: may stay",
            at=(told,),
        )
    return ages
