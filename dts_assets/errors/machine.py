"""Errors of the machine that a command runs on: Java, ports, servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors.base import DtsAssetsError


@dataclass(eq=False)
class MachineError(DtsAssetsError):
    """An error of the machine: a program or a port that is needed is not there."""

    exit_code: ClassVar[int] = 13


@dataclass(eq=False)
class MissingJavaError(MachineError):
    """No Java that Spark can run on. ``found`` is the installed version, None if there is none."""

    needed: int = 17
    found: str | None = None

    def message(self) -> str:
        """Return the needed version, the found one, and how to install Java."""
        there = "none was found" if self.found is None else f"this machine has {self.found}"
        return (
            f"Spark needs Java {self.needed} or newer and {there}. Install a Java {self.needed} runtime (Debian and Ubuntu: "
            f"openjdk-{self.needed}-jre-headless) or point JAVA_HOME at one."
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
class PortInUseError(MachineError):
    """A port on which another program listens already. ``what`` names the server that was to start there."""

    port: int
    what: str = "the server"

    def message(self) -> str:
        """Return the port and the way out."""
        return (
            f"Port {self.port} is in use, so {self.what} cannot start there. Stop the program that uses it, or choose another "
            f"port."
        )


@dataclass(eq=False)
class SparkServerError(MachineError):
    """A Spark Connect server that ended before it answered. ``log`` is the file of its output, if that is kept."""

    code: int
    log: str | None = None

    def message(self) -> str:
        """Return the exit code and where to look."""
        look = "Start it again with a log file to see why." if self.log is None else f"{self.log} says why."
        return f"The Spark Connect server did not start: it ended with {self.code}. {look}"
