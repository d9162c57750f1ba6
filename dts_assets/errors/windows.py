"""Errors of windows that are not ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import ClassVar

from dts_assets.errors import WindowError


@dataclass(eq=False)
class NotClosedError(WindowError):
    """Windows that have not closed: no message after their end was seen, and their grace has not passed.

    ``cells`` are partition keys, ``latest`` the greatest message time that the source has.
    """

    retriable: ClassVar[bool] = True

    subscription: str
    cells: Sequence[str]
    _: KW_ONLY
    latest: datetime | None

    def message(self) -> str:
        """Return the partitions, how far the source is, and what to do."""
        some = ", ".join(self.cells[:4]) + (f" and {len(self.cells) - 4} more" if len(self.cells) > 4 else "")
        reach = "has no message yet" if self.latest is None else f"has messages up to {self.latest.isoformat()}"
        return (
            f"Partitions {some} of {self.subscription} have not closed yet: the source {reach}. Ask again later; a capture "
            f"that will not grow any more is declared with `complete: true`."
        )


@dataclass(eq=False)
class NotReadyError(WindowError):
    """Windows whose inputs are not there: tables need entries, entries need raw_envelopes.

    ``missing`` names, per window key, the Kafka partitions that lack the asset ``needed``. Another run may make them.
    """

    retriable: ClassVar[bool] = True

    subscription: str
    missing: Mapping[str, Sequence[int]]
    needed: str = "entries"

    def message(self) -> str:
        """Return every window with the Kafka partitions it waits for."""
        windows = "; ".join(
            f"{key}: {', '.join(f'p{n:02d}' for n in some)}" for key, some in sorted(self.missing.items())
        )
        return (
            f"Partitions of {self.subscription} cannot be made yet, {self.needed} is missing for {windows}. Materialize "
            f"{'raw_envelopes' if self.needed == 'raw_envelopes' else 'raw_envelopes and entries'} of these partitions first."
        )


@dataclass(eq=False)
class IncompleteWindowError(WindowError):
    """Incomplete windows whose tables were asked for, although the configuration says ``on_incomplete: block``.

    ``problems`` has, per partition key, the problems that the ledger names: ``{"p00|2026-01-05-01:00": ("gap",)}``.
    """

    subscription: str
    problems: Mapping[str, Sequence[str]]

    def message(self) -> str:
        """Return every partition with its problems, and the way out."""
        named = "; ".join(f"{cell}: {', '.join(problems)}" for cell, problems in sorted(self.problems.items()))
        return (
            f"Tables of {self.subscription} are blocked because windows are incomplete ({named}). Mend the source and "
            f"materialize these partitions again, or say `on_incomplete: continue` to go on without what is missing."
        )
