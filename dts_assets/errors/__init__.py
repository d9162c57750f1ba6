"""Errors that are meant for a person, in one tree.

The number is the exit code that a command ends with; a class without a number has that of its parent. 3 to 9 are outcomes of
commands, such as a failed check, and no errors::

    DtsAssetsError                      1
    ├─ ConfigErrors                     2   every mistake of a pipeline.yaml at once
    ├─ MissingSettingError              2   a command needs a setting that the configuration lacks
    ├─ UnwritableOutputError                what a command says cannot be written
    ├─ NothingFoundError                    a command was asked to show something that is not there
    │  └─ UnknownNameError              2   a subscription or table that is named is nowhere
    ├─ SourceError                      10  where messages come from
    │  ├─ CaptureError                      the folder is not a capture, or not the one that the settings describe
    │  ├─ CaptureGrownError                 a capture that was declared complete has more messages than were stored
    │  ├─ DatabaseError                     the source database cannot be read
    │  │  └─ UnreachableDatabaseError           it does not answer; it may later
    │  ├─ CopyError                         a table cannot be copied
    │  ├─ OtherServerError                  a database is not the server that the messages come from
    │  ├─ UncheckedServerError              nobody can tell whether it is that server
    │  └─ BrokerError                       a Kafka broker, or its answer, is not what the settings describe
    │     ├─ UnreachableBrokerError             nobody answers in time; it may later
    │     ├─ BrokerLoginError                   user or password is refused
    │     ├─ BrokerMechanismError               the broker logs in by another SASL mechanism, or not at all
    │     ├─ BrokerCertificateError             the broker's certificate is not trusted
    │     ├─ BrokerDeniedError                  the user lacks a permission
    │     ├─ UnsupportedByBrokerError           the broker is too old for a question
    │     ├─ UnknownTopicError                  there is no such topic
    │     ├─ PartitionCountError                the topics have more or fewer partitions than the settings say
    │     ├─ GroupInUseError                    a client has joined the consumer group, so its offsets cannot be set
    │     ├─ MessagesGoneError                  offsets that the broker no longer has, or never had
    │     └─ RecreatedTopicError                the topic ends before the stored offsets: another topic of the same name
    ├─ LakeError                        11  where tables are kept
    │  ├─ UnwritableLakeError               the warehouse or its catalog cannot be reached or written
    │  ├─ UnavailableCatalogError           the catalog is busy, or does not answer; it may later
    │  ├─ FullDiskError                     a disk of the lake or of a run has no room
    │  ├─ CatalogRefusalError               the catalog refuses a request, or its certificate is not trusted
    │  ├─ ExpiredCredentialsError           the credentials that a catalog vended for a table's files have expired
    │  ├─ LakeChangeError                   a change of one table did not get through
    │  ├─ LakeTableError                    one table cannot take, or does not hold, the expected rows
    │  │  └─ ForeignDeletesError                another program has deleted single rows of files that are used whole
    │  ├─ StaleGenerationError              another run wrote the same rows since this run planned its work
    │  ├─ OvertakenError                    another run has taken over the work of this run, which was away for too long
    │  ├─ DamagedFileError                  a file of a table is damaged
    │  │  └─ MissingFileError                   it is not there
    │  ├─ DamagedCatalogError               the file of a SQLite catalog is damaged, or lost
    │  ├─ SetBackTableError                 a table was set back to an earlier version than the ledger speaks of
    │  ├─ LakeFormatError                   tables were made by another version of dts-assets, which lays them out otherwise
    │  └─ IncompatibleLakeError             a setting that an existing lake cannot change
    │     └─ OtherTopicsError                   topics whose Kafka partitions would have other numbers than in the lake
    ├─ WindowError                      12  windows that are not ready
    │  ├─ NotClosedError                    windows that nothing has closed yet
    │  ├─ NotReadyError                     the inputs of a window are not there yet
    │  ├─ RowsRemovedError                  messages or entries that are needed were removed by retention
    │  └─ IncompleteWindowError             a window is known to be incomplete, and the configuration says block
    ├─ MachineError                     13  the machine that the command runs on, and its Spark
    │  ├─ MissingJavaError                  no Java that Spark can run on
    │  ├─ MissingJarsError                  Java packages that Spark needs are not there, and cannot be fetched
    │  ├─ MissingPackageError               the package of a command cannot be imported
    │  ├─ MissingExtraError                 a package that an extra brings is not installed
    │  ├─ UnreachableStorageError           the PostgreSQL with Dagster's runs lets nobody in
    │  ├─ UnwritableHomeError               the folder where Dagster keeps its runs cannot be written
    │  ├─ PortInUseError                    another program listens on the port of a server
    │  ├─ UnreachableMasterError            no master of a Spark cluster answers; it may later
    │  ├─ NoExecutorsError                  a Spark cluster has no room for an executor; it may later
    │  ├─ ExecutorPythonError               executors cannot start their Python
    │  ├─ ExecutorVersionError              executors have a Python of another minor version
    │  ├─ ExecutorPackagesError             executors lack packages, or have others
    │  ├─ OtherCodeError                    executors lack dts-assets, or have another version of it
    │  └─ UnusableSparkError                Spark does not start, or cannot run one small job
    ├─ SharedFaultError                     all tables of a step failed in the same way, so none of them is paused
    ├─ ScratchServerError               10  a server for statements does not answer, or lets nobody in
    ├─ UnmatchedRulesError              2   rules match nothing, where strict_rules is true
    ├─ FullDatabasesError               2   databases of such a server have tables already
    └─ WireFormatError                  14  a wire format cannot be used as asked (bad bytes are quarantined instead)

Classes below these are in the modules of this room. An error is made from facts and builds its sentence itself: what is wrong,
where, and what to do. All of them survive pickling between processes. None ever holds a payload or a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from typing import Any, ClassVar


@dataclass(eq=False)
class DtsAssetsError(Exception):
    """An error whose ``str()`` is the whole sentence for a person."""

    exit_code: ClassVar[int] = 1
    """The code that a command ends with."""

    retriable: ClassVar[bool] = False
    """True if a repetition may succeed although nobody has mended anything.

    It is true where the sentence says "run it again".
    """

    while_restarting: ClassVar[bool] = False
    """True if a server may give this error for a moment while it starts again."""

    def message(self) -> str:
        """Return what is wrong, where, and what to do."""
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
    """One mistake in a configuration file: its place, its description and the way to mend it.

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
        """Return one line per mistake."""
        return "\n".join(str(mistake) for mistake in self.mistakes)


@dataclass(eq=False)
class NothingFoundError(DtsAssetsError):
    """Something was asked for that is not there.

    ``place`` is where it was looked for ("The lake"), ``sought`` is named without an article ("entry with the GTID 1-1-7"),
    and ``hint`` is a clause about what is there or what to do ("there are 0 to 41").
    """

    place: str
    sought: str
    hint: str

    def message(self) -> str:
        """Return the place, the thing that is missing, and the hint."""
        return f"{self.place} has no {self.sought}; {self.hint}."


@dataclass(eq=False)
class UnknownNameError(NothingFoundError):
    """A subscription or a table was named that nothing has."""

    exit_code: ClassVar[int] = 2


@dataclass(eq=False)
class MissingSettingError(DtsAssetsError):
    """A setting that a command needs.

    ``what`` says what the subscription lacks without it ("place to copy tables from"), and ``fix`` how the setting is written.
    """

    exit_code: ClassVar[int] = 2

    subscription: str
    what: str
    fix: str

    def message(self) -> str:
        """Return the subscription, what it lacks, and the setting."""
        return f"Subscription {self.subscription} has no {self.what}; {self.fix}."


@dataclass(eq=False)
class UnwritableOutputError(DtsAssetsError):
    """Output of a command that cannot be written. ``reason`` is a clause: "no space left on device"."""

    reason: str

    def message(self) -> str:
        """Return the reason."""
        return f"What this command says cannot be written: {self.reason}. Its work may be done in part; call it again."


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
class UnavailableCatalogError(LakeError):
    """A catalog that cannot be asked now. ``reason`` is a clause: "other programs have locked its database"."""

    retriable: ClassVar[bool] = True

    reason: str

    def message(self) -> str:
        """Return the reason and the way out."""
        return f"The catalog of the lake cannot be asked now: {self.reason}. Nothing is lost; run it again."


@dataclass(eq=False)
class CatalogRefusalError(LakeError):
    """A catalog that refuses a request. ``kind`` is the name of the error's class: its text may hold a secret."""

    kind: str

    def message(self) -> str:
        """Return the kind of the refusal and where to look."""
        return (
            f"The catalog of the lake refuses a request ({self.kind}). Check the address, the login and the certificate under "
            f"lake.catalog, and the catalog's log."
        )


@dataclass(eq=False)
class ExpiredCredentialsError(LakeError):
    """Credentials that a catalog vended for a table's files, and that expired in the middle of a task.

    ``expired`` is when, in UTC; None where the catalog did not name it.
    """

    retriable: ClassVar[bool] = True

    table: str
    expired: datetime | None = None

    def message(self) -> str:
        """Return the table, the expiry of its credentials and the way out."""
        when = "" if self.expired is None else f" at {self.expired:%Y-%m-%d %H:%M:%S} UTC"
        return (
            f"The credentials that the catalog vended for the files of {self.table} have expired{when}, before a task was done. "
            f"Nothing is lost; run it again. If this comes again, have the catalog vend them for an hour or longer."
        )


@dataclass(eq=False)
class LakeChangeError(LakeError):
    """A change of a table that did not get through.

    ``what`` is a clause: "other writers kept it busy for 120 s". ``addition`` follows "run it again".
    """

    retriable: ClassVar[bool] = True

    table: str
    what: str
    addition: str = ""

    def message(self) -> str:
        """Return the table, the reason and the way out."""
        return f"The lake table {self.table} could not be changed: {self.what}; run it again{self.addition}."


@dataclass(eq=False)
class LakeTableError(LakeError):
    """A table, or a file meant for it, that is not as expected.

    ``what`` is a clause: "it has no column offset". So is ``way_out``; left out, nobody but dts-assets can have made the fault.
    """

    table: str
    what: str
    way_out: str = "report it with the log of the run, because it is a fault of dts-assets"

    def message(self) -> str:
        """Return the table (or its folder), what is wrong, and the way out."""
        return f"The lake table {self.table} cannot be used as asked: {self.what}; {self.way_out}."


@dataclass(eq=False)
class ForeignDeletesError(LakeTableError):
    """A table has delete files that its reader does not apply, so deleted rows would come back."""

    what: str = "another program has deleted single rows of it, by delete files, where whole files are read or replaced"
    way_out: str = "rewrite its data files first (Spark's procedure rewrite_data_files with delete-file-threshold 1)"


@dataclass(eq=False)
class StaleGenerationError(LakeError):
    """A table that was written by another run between planning and commit.

    Nothing was written. A repetition starts from the table as it is then. ``unsure`` says that the catalog left a try without
    an answer: the files of the run have to stay.
    """

    retriable: ClassVar[bool] = True

    table: str
    _: KW_ONLY
    expected: str
    found: str
    unsure: bool = False

    def message(self) -> str:
        """Return the table, both generations and the way out."""
        return (
            f"{self.table} was written by another run while this run was working (planned on {self.expected}, found "
            f"{self.found}). Nothing was changed; run it again."
        )


@dataclass(eq=False)
class OvertakenError(LakeError):
    """Work that another run has taken over.

    This one gave no sign for too long, or both began at the same time.

    ``turn`` is what they both work on, "p00" or "tables". Nothing more was written; a repetition starts from what is there then.
    """

    retriable: ClassVar[bool] = True

    subscription: str
    turn: str

    def message(self) -> str:
        """Return the work, the reason and the way out."""
        what = "the tables" if self.turn == "tables" else f"Kafka partition {self.turn}"
        return (
            f"Another run was faster: it has taken over {what} of {self.subscription} while this run was working or was away. "
            f"This run has stopped before its next commit and has marked nothing since; run it again."
        )


@dataclass(eq=False)
class SetBackTableError(LakeError):
    """A table that was set back to an earlier version. ``current`` and ``newest`` are ids of Iceberg snapshots."""

    table: str
    _: KW_ONLY
    current: int
    newest: int

    def message(self) -> str:
        """Return the table, both versions and the way out."""
        return (
            f"The lake table {self.table} was set back to its Iceberg snapshot {self.current}, and the ledger speaks of rows "
            f"that came later. Nothing more is written to it. Set it forward again, to {self.newest} (Spark: CALL "
            f"lake.system.set_current_snapshot('{self.table}', {self.newest})), or use another subscription name, whose "
            f"tables start empty."
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

    def message(self) -> str:
        """Return the setting, both values and the way out."""
        return (
            f"{self.setting} of subscription {self.subscription} is {self.configured} in the configuration, but the lake was "
            f"built with {self.stored}: set it back, or use another subscription name, whose tables start empty."
        )


class WindowError(DtsAssetsError):
    """An error of windows that are not ready."""

    exit_code: ClassVar[int] = 12


@dataclass(eq=False)
class WireFormatError(DtsAssetsError):
    """A wire format that cannot be used as asked. ``what`` is a clause: "it needs the customer's schema file"."""

    exit_code: ClassVar[int] = 14

    format: str
    what: str

    def message(self) -> str:
        """Return the format and what is wrong."""
        return f"The wire format {self.format} cannot be used: {self.what}."
