"""Errors of the lake and its tables."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from dts_assets.errors.base import DtsAssetsError


@dataclass(eq=False)
class LakeError(DtsAssetsError):
    """An error of the lake: tables cannot be read or written."""

    exit_code: ClassVar[int] = 11


@dataclass(eq=False)
class UnwritableLakeError(LakeError):
    """A warehouse or its catalog that cannot be written. ``reason`` is a clause: "permission denied"."""

    warehouse: str
    reason: str

    def message(self) -> str:
        """Return the warehouse, the reason, and the setting that names the warehouse."""
        return (
            f"The lake {self.warehouse} cannot be written: {self.reason}. Make it writable, or name another place under "
            f"lake.warehouse."
        )


@dataclass(eq=False)
class LakeTableError(LakeError):
    """A table, or a file meant for it, that is not as expected.

    ``what`` is a clause: "it has no column offset". So is ``way_out``, for faults that nobody but dts-assets can have made.
    """

    table: str
    what: str
    way_out: str = "run it again, and report it if it comes back"

    def message(self) -> str:
        """Return the table (or its folder), what is wrong, and the way out."""
        return f"The lake table {self.table} cannot be used as asked: {self.what}; {self.way_out}."


@dataclass(eq=False)
class StaleGenerationError(LakeError):
    """A table that was written by another run between planning and commit.

    Nothing was written. A repetition starts from the table as it is then.
    """

    retriable: ClassVar[bool] = True

    table: str
    _: KW_ONLY
    expected: str
    found: str

    def message(self) -> str:
        """Return the table, both generations and the way out."""
        return (
            f"{self.table} was written by another run while this run was working (planned on {self.expected}, found "
            f"{self.found}). Nothing was changed; run it again."
        )


@dataclass(eq=False)
class LakeFormatError(LakeError):
    """The tables of a subscription are laid out otherwise than this version of dts-assets reads and writes them.

    ``found`` is the format that they name, None where they name none: lakes had no format before the first one.
    """

    subscription: str
    warehouse: str
    _: KW_ONLY
    found: str | None
    known: str

    def message(self) -> str:
        """Return the lake, both formats and the way out."""
        newer = self.found is not None and self.found.isdecimal() and int(self.found) > int(self.known)
        by = "a newer" if newer else "an earlier" if self.found is None or self.found.isdecimal() else "another"
        out = "Use that version, or use" if newer else "Use"
        return (
            f"The tables of subscription {self.subscription} in the lake {self.warehouse} were made by {by} version of "
            f"dts-assets (lake format {self.found or 'unnamed'}; this version reads and writes {self.known}), and there is no "
            f"conversion. {out} another subscription name, or another folder under lake.warehouse, and materialize again from "
            f"the source."
        )


@dataclass(eq=False)
class IncompatibleLakeError(LakeError):
    """A setting that differs from the lake's, although stored rows depend on it."""

    subscription: str
    setting: str
    _: KW_ONLY
    stored: str
    configured: str
    way_out: str = "set it back, or use another subscription name, whose tables start empty"

    def message(self) -> str:
        """Return the setting, both values and the way out."""
        return (
            f"{self.setting} of subscription {self.subscription} is {self.configured} in the configuration, but the lake was "
            f"built with {self.stored}: {self.way_out}."
        )
