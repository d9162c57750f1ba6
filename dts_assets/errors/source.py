"""Errors of captures, and the root of all errors of sources."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from dts_assets.errors.base import DtsAssetsError


@dataclass(eq=False)
class SourceError(DtsAssetsError):
    """An error of a source: messages cannot be read."""

    exit_code: ClassVar[int] = 10


@dataclass(eq=False)
class CaptureError(SourceError):
    """A capture that cannot be used. ``what`` is a clause about the folder: "it has no column offset; ..."."""

    path: str
    what: str

    def message(self) -> str:
        """Return the folder and what is wrong with it."""
        return f"The capture {self.path} cannot be used: {self.what}."


@dataclass(eq=False)
class CaptureGrownError(SourceError):
    """A capture that was declared complete and has messages behind its stored end.

    ``stored_end`` is the offset where the Kafka partition ended when its last window was closed.
    """

    path: str
    kafka_partition: int
    _: KW_ONLY
    stored_end: int
    found_end: int

    def message(self) -> str:
        """Return both ends and the way out."""
        return (
            f"The capture {self.path} is declared complete, but Kafka partition {self.kafka_partition} now ends at offset "
            f"{self.found_end} and ended at {self.stored_end} when it was read. If it is still being recorded, say "
            f"`complete: false` in the configuration; if it is another recording, use another subscription name or a new lake."
        )
