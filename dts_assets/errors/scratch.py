"""Errors of scratch servers, in which statements of a changelog are run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors import DtsAssetsError

CHECK_LOGIN = "Check the user, and the password, which comes from --password-env or --option-file."
CHECK_ADDRESS = "Check the address, and that the server runs and takes connections."


@dataclass(eq=False)
class ScratchServerError(DtsAssetsError):
    """A scratch server that cannot be used. ``what`` is a clause about it, ``advice`` a sentence, empty for none."""

    exit_code: ClassVar[int] = 10

    address: str
    what: str
    advice: str

    def message(self) -> str:
        """Return the server, what is wrong with it, and what to do."""
        return f"The scratch server {self.address} cannot be used: {self.what}. {self.advice}".rstrip()


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
