"""The errors of the laboratory. Every message says what is wrong, where, and what to do.

EmulatorError
├── MissingExtra         a package of the extra ``emulator`` is not installed
├── ServerUnavailable    MariaDB is not installed, or a private server did not start
├── BrokerUnavailable    Kafka or Java is not installed, or a private broker did not start
├── UnsupportedSource    the binlog holds something that cannot be encoded without loss
├── NoSuchMoment         the server was never at that position or set of GTIDs
└── ReplayFailed         the binlogs could not be replayed on another server
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class EmulatorError(Exception):
    """The laboratory cannot do as it was asked. ``exit_code`` is how a command of ``dts-assets`` ends with it."""

    exit_code: ClassVar[int] = 1


class MissingExtra(EmulatorError):
    """A package of the extra ``emulator`` is not installed."""

    exit_code: ClassVar[int] = 13

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package

    def __str__(self) -> str:
        return (
            f"The package {self.package} is not installed, and this command needs it: "
            "install the extra, pip install 'dts-assets[emulator]'."
        )


class ServerUnavailable(EmulatorError):
    """No private MariaDB could be started."""

    exit_code: ClassVar[int] = 13

    def __init__(self, reason: str, log: Path | None = None) -> None:
        super().__init__(reason, log)
        self.reason = reason
        self.log = log

    def __str__(self) -> str:
        return self.reason if self.log is None else f"{self.reason}; its log is {self.log}"


class BrokerUnavailable(EmulatorError):
    """No private Kafka broker could be started, or one that runs does not answer."""

    exit_code: ClassVar[int] = 13

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnsupportedSource(EmulatorError):
    """The binlog holds something that cannot be encoded without loss."""

    def __init__(self, what: str, file_name: str, position: int) -> None:
        super().__init__(what, file_name, position)
        self.what = what
        self.file_name = file_name
        self.position = position

    def __str__(self) -> str:
        return f"{self.what} (binlog {self.file_name}, position {self.position})"


class NoSuchMoment(EmulatorError):
    """The server was never, or is not yet, at that position or set of GTIDs."""

    def __init__(self, moment: str, reason: str) -> None:
        super().__init__(moment, reason)
        self.moment = moment
        self.reason = reason

    def __str__(self) -> str:
        return f"the server was never at {self.moment}: {self.reason}"


class ReplayFailed(EmulatorError):
    """The binlogs could not be replayed on another server."""

    def __init__(self, moment: str, reason: str) -> None:
        super().__init__(moment, reason)
        self.moment = moment
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the binlogs could not be replayed up to {self.moment}: {self.reason}; they must reach back to the CREATE "
            "statement of every table in them"
        )
