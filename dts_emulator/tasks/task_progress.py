"""The progress of a task that follows a live server, in a file for its next start."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dts_emulator.source.events import Coordinates
from dts_emulator.source.mariadb_gtids import Gtid


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment between two transactions. All messages of earlier transactions have been delivered."""

    at: Coordinates
    """Of the last event before it."""
    synced: str
    """The GTIDs before it, as a CHECKPOINT has them."""
    number: int
    """The last ``seqId``, or ``id`` in the other format."""
    sent: tuple[int, ...]
    """Messages of each Kafka partition."""
    statements: tuple[tuple[str, str], ...]
    """Every DDL statement before it, each with its default database. They make the tables as they are at that moment."""

    def write(self, path: Path) -> None:
        """Replace the file, whole or not at all."""
        at, gtid = self.at, self.at.gtid
        said = {
            "file": at.file_name, "start": at.start, "position": at.end, "timestamp": at.timestamp, "server_id": at.server_id,
            "gtid": None if gtid is None else [gtid.domain, gtid.server_id, gtid.sequence],
            "synced": self.synced, "number": self.number, "sent": self.sent, "statements": self.statements,
        }  # fmt: skip
        unfinished = path.with_suffix(f"{path.suffix}.part")
        unfinished.write_text(json.dumps(said, ensure_ascii=False) + "\n", encoding="utf-8")
        unfinished.replace(path)


def read_progress(path: Path) -> Progress | None:
    """Return the progress in a file that :meth:`Progress.write` has written; None without the file.

    Raises:
        ValueError: The file is another one.
        KeyError: The file is another one.
    """
    if not path.exists():
        return None
    said = json.loads(path.read_text(encoding="utf-8"))
    gtid = None if said["gtid"] is None else Gtid(*said["gtid"])
    at = Coordinates(
        said["file"],
        said["start"],
        said["position"],
        timestamp=said["timestamp"],
        server_id=said["server_id"],
        gtid=gtid,
    )
    statements: Iterable[list[str]] = said["statements"]
    return Progress(
        at,
        str(said["synced"]),
        int(said["number"]),
        tuple(map(int, said["sent"])),
        tuple((database, sql) for database, sql in statements),
    )
