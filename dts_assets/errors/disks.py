"""Errors of disks that files of the lake and of runs lie on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors import LakeError


@dataclass(eq=False)
class FullDiskError(LakeError):
    """A disk that has no room. ``place`` is the file that could not be written, where the system named it."""

    retriable: ClassVar[bool] = True

    place: str = ""

    def message(self) -> str:
        """Return the place and the way out."""
        where = f" at {self.place}" if self.place else ""
        return (
            f"A disk that this run writes to is full{where}: that of the lake, of temporary files or of Dagster's home. "
            f"Nothing is lost. Free space, then run it again; dts-assets size says what the lake holds, and dts-assets maintain "
            f"lets go of old versions."
        )
