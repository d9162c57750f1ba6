"""The error of rows that retention has removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dts_assets.errors import WindowError

_SHOWN = 5
"""The number of partitions that a sentence names."""


@dataclass(eq=False)
class RowsRemovedError(WindowError):
    """Messages or entries that are needed, and that ``message_retention`` has removed.

    ``removed`` has the moments by partition key, ``{"p00|2026-01-05-03:00": datetime(2026, 1, 20)}``. ``layer`` is the table that
    they were in, ``consequence`` the clause that says what cannot be done.
    """

    subscription: str
    layer: str
    removed: Mapping[str, datetime]
    consequence: str = "they cannot be made again"

    def message(self) -> str:
        """Return the partitions, the days on which their rows were removed, and what follows."""
        what = "raw messages" if self.layer == "raw_envelopes" else "entries"
        keys = sorted(self.removed)
        more = f" and {len(keys) - _SHOWN} more partitions" if len(keys) > _SHOWN else ""
        days = sorted({f"{at:%Y-%m-%d}" for at in self.removed.values()})
        on = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        return (
            f"The {what} of {', '.join(keys[:_SHOWN])}{more} of {self.subscription} were removed by retention on {on}; "
            f"{self.consequence}."
        )
