"""The comparison with the source database in the configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from dts_assets.model.database_places import DatabasePlace
from dts_assets.settings.databases import Jdbc
from dts_assets.settings.places import Part, default_duration
from dts_assets.settings.values import VALUE, Duration, Glob, mistake

_LEAST, _MINUTE, _HOUR, _DAY = timedelta(minutes=5), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def _not_all_the_time(every: timedelta | None) -> timedelta | None:
    if every is not None and every < _LEAST:
        raise mistake(f"{VALUE} is less than five minutes, and each comparison reads all tables", "write 5m or more")
    if every is not None and not (_divides_an_hour(every) or (not _DAY % every and not every % _HOUR)):
        raise mistake(f"{VALUE} is no time of a clock", "write minutes that divide an hour, or hours that divide a day")
    return every


def _divides_an_hour(every: timedelta) -> bool:
    return not _HOUR % every and not every % _MINUTE


class Verification(Part):
    """The comparison of snapshots with the source database."""

    jdbc: Jdbc | None = Field(None, description="Where the source database is reached.")
    tables: tuple[Glob, ...] = Field(("*",), description="Tables that are compared, as globs.")
    every: Annotated[Duration | None, AfterValidator(_not_all_the_time)] = Field(
        None, description="How often tables are compared by a schedule; without it none is."
    )
    timeout: Duration = default_duration(
        "10m", "How long a comparison waits for the lake to reach the source's position."
    )
    without_sums: tuple[Glob, ...] = Field((), description="Tables whose snapshots carry no sum.")

    @property
    def place(self) -> DatabasePlace | None:
        """The server with its account; None where no server is named."""
        if self.jdbc is None:
            return None
        return self.jdbc.place
