"""Errors of the machine that a command runs on, each with a sentence of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors import DtsAssetsError


class MachineError(DtsAssetsError):
    """An error of the machine: a program, a port or a Spark that is needed is not there."""

    exit_code: ClassVar[int] = 13


@dataclass(eq=False)
class MissingJavaError(MachineError):
    """No Java that Spark can run on.

    ``found`` is the installed version, None if there is none; ``home`` is the folder that JAVA_HOME names.
    """

    needed: int = 17
    found: str | None = None
    home: str | None = None

    def message(self) -> str:
        """Return the needed version, the found one, and how to install Java."""
        there = "none was found" if self.found is None else f"this machine has {self.found}"
        there += f" in {self.home}, which JAVA_HOME names" if self.home else ""
        return (
            f"Spark needs Java {self.needed} or newer and {there}. Install a Java {self.needed} runtime (Debian and Ubuntu: "
            f"openjdk-{self.needed}-jre-headless) or point JAVA_HOME at one."
        )


@dataclass(eq=False)
class MissingJarsError(MachineError):
    """Java packages that Spark needs and that are not in ``folder``, by their Maven coordinates."""

    packages: Sequence[str]
    folder: str

    def message(self) -> str:
        """Return the packages, the folder and the ways to get them there."""
        return (
            f"Spark needs Java packages that are not in {self.folder}: {', '.join(self.packages)}. Spark fetches them at its "
            f"next start where Maven's central repository is reached; elsewhere name a mirror under spark.conf as "
            f"spark.jars.ivySettings, or copy the folder from another machine."
        )


@dataclass(eq=False)
class MissingPackageError(MachineError):
    """A package, or one that it needs, that cannot be imported, so that its command is not available.

    ``place`` is where the command was looked for, "dts_emulator.commands.live:live", and ``reason`` what Python says of it.
    """

    command: str
    place: str
    reason: str

    def message(self) -> str:
        """Return the command, its place, the reason and the way out."""
        return (
            f"The command {self.command} cannot be loaded from {self.place}: {self.reason}. Install the package again, with its "
            f"extras."
        )


@dataclass(eq=False)
class MissingExtraError(MachineError):
    """A package that only an extra of dts-assets brings. ``what`` needs it: "Dagster's storage in PostgreSQL"."""

    what: str
    extra: str
    package: str

    def message(self) -> str:
        """Return the purpose, the package and how to install it."""
        return f'{self.what} needs the package {self.package}: run pip install "dts-assets[{self.extra}]".'


@dataclass(eq=False)
class UnreachableStorageError(MachineError):
    """A PostgreSQL with Dagster's runs that does not let us in. ``place`` is host and port."""

    retriable: ClassVar[bool] = True

    place: str

    def message(self) -> str:
        """Return the place and what to look at."""
        return (
            f"Dagster's storage, the PostgreSQL at {self.place}, cannot be reached, or refuses the user. Look at the block "
            f"storage in dagster.yaml and at the server's log; then run it again."
        )


@dataclass(eq=False)
class UnwritableHomeError(MachineError):
    """A folder of Dagster's runs that cannot be made or written. ``reason`` is a clause: "permission denied"."""

    home: str
    reason: str

    def message(self) -> str:
        """Return the folder, the reason, and the variable that names another."""
        return f"Dagster's home {self.home} cannot be written: {self.reason}. Name another folder in DAGSTER_HOME."


@dataclass(eq=False)
class PortInUseError(MachineError):
    """A port on which another program listens already.

    ``what`` names the server that was to start there; ``reserved`` says that the system keeps the port for other users.
    """

    port: int
    what: str = "the server"
    reserved: bool = False

    def message(self) -> str:
        """Return the port and the way out."""
        if self.reserved:
            return f"Port {self.port} is kept for other users, so {self.what} cannot start there. Choose another port."
        return (
            f"Port {self.port} is in use, so {self.what} cannot start there. Stop the program that uses it, or choose another "
            f"port."
        )
