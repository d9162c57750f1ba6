"""Errors of wire formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors.base import DtsAssetsError


@dataclass(eq=False)
class WireFormatError(DtsAssetsError):
    """A wire format that cannot be used as asked. ``what`` is a clause: "it needs the customer's schema file"."""

    exit_code: ClassVar[int] = 14

    format: str
    what: str

    def message(self) -> str:
        """Return the format and what is wrong."""
        return f"The wire format {self.format} cannot be used: {self.what}."
