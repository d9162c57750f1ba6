"""Errors of scratch servers, in which statements of a changelog are run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors import DtsAssetsError


@dataclass(eq=False)
class ScratchServerError(DtsAssetsError):
    """A scratch server that cannot be used. ``what`` is a clause about it."""

    exit_code: ClassVar[int] = 10

    address: str
    what: str

    def message(self) -> str:
        """Return the server and what is wrong with it."""
        return (
            f"The scratch server {self.address} cannot be used: {self.what}. Check the address, and the password, which comes "
            "from --password-env or --option-file."
        )


@dataclass(eq=False)
class FullDatabasesError(DtsAssetsError):
    """Databases of a scratch server that have tables already."""

    exit_code: ClassVar[int] = 2

    address: str
    databases: Sequence[str]

    def message(self) -> str:
        """Return the databases and the ways out."""
        return (
            f"The scratch server {self.address} has tables already in {', '.join(self.databases)}. Name another server, or say "
            "--existing drop to drop these databases, or --existing use to run statements in the tables that are there."
        )
