"""The settings of an emulated Tencent DTS task from TDSQL PostgreSQL.

The vendor documents next to nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dts_emulator.dts.dts_options import DtsOptions

SEGMENT_BYTES = 1 << 24
"""Bytes of a segment of the write-ahead log, as a server has them that was not built otherwise."""


@dataclass(frozen=True, slots=True)
class PostgresqlDtsOptions(DtsOptions):
    """A task from PostgreSQL."""

    files: Literal["none", "segment", "offset", "commit"] = "none"
    """The place of an entry.

    ``none``: no file name, and the LSN as a number; ``segment``: the name of the WAL segment, and the LSN; ``offset``: the name
    of the segment, and the place in it; ``commit``: the LSN of the commit as PostgreSQL writes it, and a number in the
    transaction.
    """
    positions: Literal["change", "commit"] = "change"
    """The LSN of an entry: that of its own record, or of the end of its transaction."""
    timeline: int = 1
    """The timeline in the names of segments."""
    old_key: Literal["na", "nil", "none"] = "na"
    """The old row where the replica identity is the key.

    The columns beside the key are ``na`` or ``nil``; ``none``: there is no old row, unless the key changed.
    """
    lengths: bool = True
    """Types have their lengths, as in ``numeric(10,2)``."""
    restart_every: int | None = None
    """The task is restarted in the middle of a transaction after every so many; None: never."""
    reread: int = 2
    """The number of whole transactions that a restarted task reads again."""
