"""The errors of the laboratory. Every message says what is wrong, where, and what to do.

EmulatorError
├── MissingExtra         a package of the extra ``emulator`` is not installed
├── ServerUnavailable    MariaDB or PostgreSQL is not installed, or a private server did not start
├── BrokerUnavailable    Kafka or Java is not installed, or a private broker did not start
├── UnsupportedSource    the binlog holds something that cannot be encoded without loss
├── DecodingFailed       a PostgreSQL's logical decoding prints something that is not understood
├── NoSuchMoment         the server was never at that position or set of GTIDs
├── ReplayFailed         the binlogs could not be replayed on another server
├── NotACapture          a folder cannot be read, or written, as a capture
├── NoRoomForFault       a recorded topic is too small for the faults that were asked for
├── FolderTaken          the folder of a live pipeline holds something else
├── NotASuite            a folder has no conformance suite, or another file than was written
├── NotAResult           a file of a consumer's results cannot be read
├── ChildEnded           a process of a live pipeline has ended
└── ChildNotReady        a process of a live pipeline does not become ready
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """No private MariaDB or PostgreSQL could be started."""

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


class DecodingFailed(EmulatorError):
    """A PostgreSQL's logical decoding prints something that is not understood, from the character ``at`` on."""

    def __init__(self, line: str, at: int) -> None:
        super().__init__(at)
        self.line = line
        self.at = at

    def __str__(self) -> str:
        return f"a line of test_decoding is not understood from its character {self.at} on: {self.line[:80]}"


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


class NotACapture(EmulatorError):
    """A folder that cannot be read, or written, as a capture."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.folder}: {self.reason}"


class NoRoomForFault(EmulatorError):
    """The capture has no message that a fault of some kind could be done to."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        return f"no message is left for another fault of kind {self.kind}; ask for fewer faults, or leave the kind out"


class FolderTaken(EmulatorError):
    """A folder that is to be emptied holds something that was not made by a live pipeline."""

    exit_code: ClassVar[int] = 13

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder

    def __str__(self) -> str:
        return f"The folder {self.folder} is not empty and was not made by `make live`. Name another one, or remove this one."


class NotASuite(EmulatorError):
    """A folder that has no conformance suite, or in which a file of the suite is another one."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.folder} cannot be used as a conformance suite: {self.reason}"


class NotAResult(EmulatorError):
    """A file of a consumer's results that cannot be read."""

    def __init__(self, file: Path, line: int, reason: str) -> None:
        super().__init__(file, line, reason)
        self.file = file
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


class ChildEnded(EmulatorError):
    """A process that should be running has ended. ``code`` is its exit code, negative for a signal."""

    exit_code: ClassVar[int] = 13

    def __init__(self, name: str, *, code: int, log: Path, last_lines: Sequence[str]) -> None:
        super().__init__(name, code)
        self.name = name
        self.code = code
        self.log = log
        self.last_lines = tuple(last_lines)

    def __str__(self) -> str:
        how = f"by signal {-self.code}" if self.code < 0 else f"with exit code {self.code}"
        return _with_lines(f"{self.name} has ended {how}; its log is {self.log}", self.last_lines)


class ChildNotReady(EmulatorError):
    """A process runs and does not become ready in time."""

    exit_code: ClassVar[int] = 13

    def __init__(self, name: str, *, seconds: float, log: Path, last_lines: Sequence[str]) -> None:
        super().__init__(name, seconds)
        self.name = name
        self.seconds = seconds
        self.log = log
        self.last_lines = tuple(last_lines)

    def __str__(self) -> str:
        return _with_lines(
            f"{self.name} was not ready after {self.seconds:.0f} s; its log is {self.log}", self.last_lines
        )


def _with_lines(sentence: str, lines: Sequence[str]) -> str:
    """Return a sentence and below it the last lines of a log."""
    return "\n".join([sentence, *(f"    {line}" for line in lines)])
