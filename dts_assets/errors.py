"""Every error that is meant for a person, and the exit code that the command ends with.

What can be wrong with a Kafka broker is in ``dts_assets.broker_errors``, everything else here. Each class with its exit code,
where it has one of its own (3 to 9 are outcomes of commands, such as a failed check)::

    DtsAssetsError                  1
    ├─ ConfigErrors                 2   every mistake of a pipeline.yaml at once
    ├─ SourceError                  10  where messages come from
    │  ├─ CaptureError                  the folder is not a capture, or not the one that the settings describe
    │  ├─ CaptureGrownError             a capture that was declared complete has more messages than were stored
    │  └─ BrokerError                   a Kafka broker, or what it answers, is not what the settings describe
    │     ├─ UnreachableBrokerError         nobody answers in time; the same again may succeed
    │     ├─ BrokerLoginError               user or password is refused
    │     ├─ BrokerMechanismError           the broker logs in by another SASL mechanism, or not at all
    │     ├─ BrokerCertificateError         the broker's certificate is not trusted
    │     ├─ BrokerDeniedError              the user may not do what is asked
    │     ├─ UnknownTopicError              there is no such topic
    │     ├─ PartitionCountError            the topics have more or fewer partitions than the settings say
    │     ├─ GroupInUseError                a client has joined the consumer group, so its offsets cannot be set
    │     ├─ MessagesGoneError              offsets that the broker no longer has, or never had
    │     └─ RecreatedTopicError            the topic ends before what is stored: it is another one of the same name
    ├─ LakeError                    11  where tables are kept
    │  ├─ UnwritableLakeError           the warehouse or its catalog cannot be reached or written
    │  ├─ LakeTableError                one table cannot take, or does not hold, what it should
    │  ├─ StaleGenerationError          somebody else wrote the same rows since this run planned its work
    │  └─ IncompatibleLakeError         a setting that an existing lake cannot change
    ├─ NotClosedError               12  windows that nothing has closed yet
    ├─ NotReadyError                12  something was asked for before what it is made from is there
    ├─ IncompleteWindowError        12  a window that is known to be incomplete, where the configuration says block
    ├─ SurroundingsError            13  the machine that the command runs on
    │  ├─ MissingJavaError
    │  ├─ PortInUseError
    │  └─ SparkServerError
    └─ WireFormatError              14  a wire format that cannot be used as asked (bad bytes raise nothing: they are quarantined)

An error is made from facts, keeps them as attributes and builds its sentence itself, so that whoever raises it cannot forget
what to do about it. All of them survive pickling, because Spark and Dagster carry them between processes. None ever holds a
payload or a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from typing import Any, ClassVar


@dataclass(eq=False)
class DtsAssetsError(Exception):
    """The root: ``str()`` is the whole sentence for a person, ``exit_code`` what the command ends with."""

    exit_code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False
    """Whether the same again may succeed without anything being mended."""

    def message(self) -> str:
        """What is wrong, where, and what to do."""
        return type(self).__name__

    def __str__(self) -> str:
        return self.message()

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own way calls the class with ``args``, which lacks what was given by keyword.
        facts = {fact.name: getattr(self, fact.name) for fact in fields(self)}
        return _restored, (type(self), facts)


def _restored(cls: type[DtsAssetsError], facts: Mapping[str, Any]) -> DtsAssetsError:
    return cls(**facts)


@dataclass(frozen=True, slots=True)
class ConfigMistake:
    """One mistake in a configuration file: where it stands, what is wrong and how to mend it.

    ``line`` counts from 1 and is None where the file as a whole is meant; ``path`` is dotted, ``lake.warehouse``, and empty for
    the whole file.
    """

    file: str
    line: int | None
    path: str
    message: str
    fix: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        where = f" {self.path}:" if self.path else ""
        return f"{place}:{where} {self.message}; {self.fix}"


@dataclass(eq=False)
class ConfigErrors(DtsAssetsError):
    """Every mistake of a configuration file, in the order of its lines."""

    exit_code: ClassVar[int] = 2

    mistakes: Sequence[ConfigMistake]

    def message(self) -> str:
        """One line per mistake."""
        return "\n".join(str(mistake) for mistake in self.mistakes)


@dataclass(eq=False)
class SourceError(DtsAssetsError):
    """Messages cannot be read."""

    exit_code: ClassVar[int] = 10


@dataclass(eq=False)
class CaptureError(SourceError):
    """A capture that cannot be used. ``what`` is a clause about the folder: "it has no column offset; ..."."""

    path: str
    what: str

    def message(self) -> str:
        """The folder and what is wrong with it."""
        return f"The capture {self.path} cannot be used: {self.what}."


@dataclass(eq=False)
class CaptureGrownError(SourceError):
    """A capture declared complete has messages at or after the end that was stored when its last window was closed."""

    path: str
    kafka_partition: int
    _: KW_ONLY
    stored_end: int
    found_end: int

    def message(self) -> str:
        """Both ends and the way out."""
        return (
            f"The capture {self.path} is declared complete, but Kafka partition {self.kafka_partition} now ends at offset "
            f"{self.found_end} and ended at {self.stored_end} when it was read. If it is still being recorded, say "
            f"`complete: false` in the configuration; if it is another recording, use another subscription name or a new lake."
        )


@dataclass(eq=False)
class LakeError(DtsAssetsError):
    """Tables cannot be read or written."""

    exit_code: ClassVar[int] = 11


@dataclass(eq=False)
class UnwritableLakeError(LakeError):
    """The warehouse or its catalog cannot be written. ``reason`` is a clause: "permission denied"."""

    warehouse: str
    reason: str

    def message(self) -> str:
        """The warehouse, the reason, and which setting names it."""
        return (
            f"The lake {self.warehouse} cannot be written: {self.reason}. Make it writable, or name another place under "
            f"lake.warehouse."
        )


@dataclass(eq=False)
class LakeTableError(LakeError):
    """A table, or a file meant for it, is not what it should be. ``what`` is a clause: "it has no column offset"."""

    table: str
    what: str

    def message(self) -> str:
        """The table (or its folder) and what is wrong."""
        return f"The lake table {self.table} cannot be used as asked: {self.what}."


@dataclass(eq=False)
class StaleGenerationError(LakeError):
    """A table moved between planning and commit. Nothing was written; the same run again starts from what is there now."""

    retriable: ClassVar[bool] = True

    table: str
    _: KW_ONLY
    expected: str
    found: str

    def message(self) -> str:
        """The table, both generations and the way out."""
        return (
            f"{self.table} was written by somebody else while this run was working (planned on {self.expected}, found "
            f"{self.found}). Nothing was changed; run it again."
        )


@dataclass(eq=False)
class IncompatibleLakeError(LakeError):
    """A setting differs from the one that the lake was built with, and rows already stored depend on it."""

    subscription: str
    setting: str
    _: KW_ONLY
    stored: str
    configured: str
    way_out: str = "set it back, or use another subscription name, whose tables start empty"

    def message(self) -> str:
        """The setting, both values and the way out."""
        return (
            f"{self.setting} of subscription {self.subscription} is {self.configured} in the configuration, but the lake was "
            f"built with {self.stored}: {self.way_out}."
        )


@dataclass(eq=False)
class NotReadyError(DtsAssetsError):
    """Something was asked for before what it is made from is there: tables before every Kafka partition of their windows has
    entries, entries before raw_envelopes.

    ``missing`` names, per window key, the Kafka partitions that lack what is ``needed``.
    """

    exit_code: ClassVar[int] = 12

    subscription: str
    missing: Mapping[str, Sequence[int]]
    needed: str = "entries"

    def message(self) -> str:
        """Every window with the Kafka partitions it waits for."""
        windows = "; ".join(
            f"{window}: {', '.join(f'p{partition:02d}' for partition in partitions)}"
            for window, partitions in sorted(self.missing.items())
        )
        return (
            f"Partitions of {self.subscription} cannot be made yet, {self.needed} is missing for {windows}. Materialize "
            f"{'raw_envelopes' if self.needed == 'raw_envelopes' else 'raw_envelopes and entries'} of these partitions first."
        )


@dataclass(eq=False)
class SurroundingsError(DtsAssetsError):
    """The machine lacks something."""

    exit_code: ClassVar[int] = 13


@dataclass(eq=False)
class MissingJavaError(SurroundingsError):
    """No Java that Spark can run on. ``found`` is the version that is there, None where there is none."""

    needed: int = 17
    found: str | None = None

    def message(self) -> str:
        """What is needed and what was found."""
        there = "none was found" if self.found is None else f"this machine has {self.found}"
        return (
            f"Spark needs Java {self.needed} or newer and {there}. Install a Java {self.needed} runtime (Debian and Ubuntu: "
            f"openjdk-{self.needed}-jre-headless) or point JAVA_HOME at one."
        )


@dataclass(eq=False)
class PortInUseError(SurroundingsError):
    """Something else listens where a server is to start."""

    port: int
    what: str = "the server"

    def message(self) -> str:
        """The port and the way out."""
        return (
            f"Port {self.port} is in use, so {self.what} cannot start there. Stop what uses it, or choose another port."
        )


@dataclass(eq=False)
class SparkServerError(SurroundingsError):
    """A Spark Connect server ended before it answered. ``log`` is where it says why, if that is kept."""

    code: int
    log: str | None = None

    def message(self) -> str:
        """How it ended and where to look."""
        where = "" if self.log is None else f" {self.log} says why."
        return f"The Spark Connect server did not start: it ended with {self.code}.{where}"


@dataclass(eq=False)
class WireFormatError(DtsAssetsError):
    """A wire format cannot be used as asked. ``what`` is a clause: "it needs the customer's schema file"."""

    exit_code: ClassVar[int] = 14

    format: str
    what: str

    def message(self) -> str:
        """The format and what is wrong."""
        return f"The wire format {self.format} cannot be used: {self.what}."


@dataclass(eq=False)
class NotClosedError(DtsAssetsError):
    """Windows were asked for that have not closed: nothing after their end was seen, and their grace has not passed.

    ``cells`` are partition keys, ``latest`` the greatest message time that the source has.
    """

    exit_code: ClassVar[int] = 12

    subscription: str
    cells: Sequence[str]
    _: KW_ONLY
    latest: datetime | None

    def message(self) -> str:
        """The partitions, how far the source is, and what to do."""
        some = ", ".join(self.cells[:4]) + (f" and {len(self.cells) - 4} more" if len(self.cells) > 4 else "")
        reach = "has no message yet" if self.latest is None else f"has messages up to {self.latest.isoformat()}"
        return (
            f"Partitions {some} of {self.subscription} have not closed yet: the source {reach}. Ask again later; a capture "
            f"that will not grow any more is declared with `complete: true`."
        )


@dataclass(eq=False)
class IncompleteWindowError(DtsAssetsError):
    """Tables of incomplete windows were asked for, and the configuration says ``on_incomplete: block``.

    ``problems`` has, per partition key, what the ledger names.
    """

    exit_code: ClassVar[int] = 12

    subscription: str
    problems: Mapping[str, Sequence[str]]

    def message(self) -> str:
        """Every partition with its problems, and the way out."""
        named = "; ".join(f"{cell}: {', '.join(problems)}" for cell, problems in sorted(self.problems.items()))
        return (
            f"Tables of {self.subscription} are blocked because windows are incomplete ({named}). Mend the source and "
            f"materialize these partitions again, or say `on_incomplete: continue` to go on without what is missing."
        )
