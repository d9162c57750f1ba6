"""What can go wrong around the emulator. Every message says what is wrong, where, and what to do.

EmulatorError
├── ServerUnavailable    MariaDB is not installed, or a private server did not start
└── UnsupportedSource    the binlog holds something that cannot be encoded without loss
"""

from __future__ import annotations

from pathlib import Path


class EmulatorError(Exception):
    """The emulator cannot do what it was asked."""


class ServerUnavailable(EmulatorError):
    """No private MariaDB could be started."""

    def __init__(self, reason: str, log: Path | None = None) -> None:
        super().__init__(reason, log)
        self.reason = reason
        self.log = log

    def __str__(self) -> str:
        return self.reason if self.log is None else f"{self.reason}; its log is {self.log}"


class UnsupportedSource(EmulatorError):
    """The binlog holds something that cannot be encoded without loss."""

    def __init__(self, what: str, file_name: str, position: int) -> None:
        super().__init__(what, file_name, position)
        self.what = what
        self.file_name = file_name
        self.position = position

    def __str__(self) -> str:
        return f"{self.what} (binlog {self.file_name}, position {self.position})"
