"""The origin of an error: one table, other writers, a silent server, or the whole run.

Three questions are answered by it: whether a call is repeated, whether a failed run may pass by itself, and whether one table
is paused. Classes of libraries are known by name, so that no library is loaded for it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto

from dts_assets.errors import DtsAssetsError, LakeTableError
from dts_assets.errors.damage import DamagedFileError
from dts_assets.errors.disks import FullDiskError


class Origin(Enum):
    """The origin of an error, as far as its class and text tell."""

    TABLE = auto()
    """The rows, names or path of one table, or a fault of the code that it alone met."""
    FASTER = auto()
    """Another writer has changed a table first."""
    BUSY = auto()
    """Other writers hold the catalog's database, or the database has cut the connection."""
    SILENT = auto()
    """A server gave no answer, or told to come again; another answer may come."""
    UNSURE = auto()
    """The catalog did not say whether it made a commit."""
    RUN = auto()
    """The settings, a server or the machine: every table meets such an error."""


_BY_CLASS: Mapping[str, Origin] = {
    "py4j.Py4JNetworkError": Origin.RUN,
    "pyiceberg.AuthorizationExpiredError": Origin.SILENT,
    "pyiceberg.BadRequestError": Origin.TABLE,
    "pyiceberg.CommitFailedException": Origin.FASTER,
    "pyiceberg.CommitStateUnknownException": Origin.UNSURE,
    "pyiceberg.RESTError": Origin.RUN,
    "pyiceberg.ServerError": Origin.SILENT,
    "pyiceberg.ServiceUnavailableError": Origin.SILENT,
    "pyiceberg.TooManyRequestsError": Origin.SILENT,
    "requests.ChunkedEncodingError": Origin.SILENT,
    "requests.ConnectionError": Origin.SILENT,
    "requests.RetryError": Origin.SILENT,
    "requests.SSLError": Origin.RUN,  # a connection error by class, but a certificate stays as it is
    "requests.Timeout": Origin.SILENT,
}
"""The classes that decide, by package and name. Of an error's class and its parents the nearest listed one counts."""

_REFUSALS = frozenset({"pyiceberg.RESTError", "requests.RequestException"})
"""The classes of errors of a catalog that refuses a request, where no other rule knows them."""

_OF_SERVERS = frozenset({"botocore", "confluent_kafka", "grpc", "requests", "sqlalchemy", "tenacity", "urllib3"})
"""The packages whose errors tell of the way to a server, and not of a table."""

_OF_PATHS = frozenset({errno.ENOENT, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.ELOOP})
"""The errors of the system that a path of one table causes.

All others, such as a full disk, hit every table.
"""

_OF_FULL_DISKS = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL = re.compile(r"No space left on device|Disk quota exceeded|SQLITE_FULL|database or disk is full")
_WRITING = frozenset({"py4j", "pyarrow", "pyspark", "sqlalchemy", "sqlite3"})
"""The packages whose errors tell by their texts of a disk that is full."""

_OF_JAVA = frozenset({"py4j", "pyspark"})
_LOCKED = re.compile(r"locked|busy|deadlock|could not serialize", re.IGNORECASE)

_BY_TEXT_OF_JAVA: tuple[tuple[re.Pattern[str], Origin], ...] = (
    (re.compile(r"CommitFailedException"), Origin.FASTER),
    (re.compile(r"CommitStateUnknownException"), Origin.UNSURE),
    (re.compile(r"SQLITE_BUSY"), Origin.BUSY),
    (re.compile(r"ServiceUnavailableException|ServiceFailureException"), Origin.SILENT),
    (
        re.compile(
            r"OutOfMemoryError|MemoryError|No space left on device|Disk quota exceeded|SQLITE_FULL|ConnectException"
            r"|SocketException|UnknownHostException|TimeoutException|SQLTransientException|InterruptedException|cancelled"
            r"|SparkContext was shut down|executor lost|ExecutorLostFailure|FetchFailed"
        ),
        Origin.RUN,
    ),
)
"""Spark raises errors of its engine and its catalog as errors of its own, whose texts name them."""


def origin_of(error: BaseException) -> Origin:
    """Return the origin of an error, without its causes."""
    if not isinstance(error, Exception) or isinstance(error, MemoryError):
        return Origin.RUN
    if isinstance(error, DamagedFileError):
        return Origin.TABLE if error.owner.is_of_one_table else Origin.RUN
    if isinstance(error, DtsAssetsError):
        return Origin.TABLE if isinstance(error, LakeTableError) and not error.retriable else Origin.RUN
    parents = [(one.__module__.partition(".")[0], one.__name__) for one in type(error).__mro__]
    found = next((_BY_CLASS[name] for name in map(".".join, parents) if name in _BY_CLASS), None)
    if found is not None:
        return found
    if ("sqlalchemy", "DBAPIError") in parents:
        return Origin.BUSY if _is_contended(error) else Origin.RUN
    package = parents[0][0]
    if package in _OF_JAVA:
        return next((origin for words, origin in _BY_TEXT_OF_JAVA if words.search(str(error))), Origin.TABLE)
    if package in _OF_SERVERS:
        return Origin.RUN
    if isinstance(error, OSError):
        return Origin.TABLE if isinstance(error, FileNotFoundError) or error.errno in _OF_PATHS else Origin.RUN
    return Origin.TABLE


def is_refusal(error: BaseException) -> bool:
    """Return whether a catalog that is a server has refused a request, or cannot be trusted."""
    parents = {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(error).__mro__}
    return not _REFUSALS.isdisjoint(parents)


def concerns_table(error: BaseException) -> bool:
    """Return whether an error of one table's step is the table's own, with all its causes.

    An error of a table that stands for a damaged file, of whichever table, is the table's own.
    """
    outermost = isinstance(error, LakeTableError)
    return all(
        origin_of(one) is Origin.TABLE or (outermost and isinstance(one, DamagedFileError))
        for one in _with_causes(error)
    )


def full_disk(error: BaseException) -> FullDiskError | None:
    """Return the error of a full disk that an error or its causes tell of; None without one."""
    for one in _with_causes(error):
        if isinstance(one, FullDiskError):
            return one
        if isinstance(one, OSError) and one.errno in _OF_FULL_DISKS:
            return FullDiskError(str(one.filename or ""))
        package = type(one).__module__.partition(".")[0]
        if package in _WRITING and _FULL.search(str(one)):
            return FullDiskError()
    return None


def _is_contended(error: Exception) -> bool:
    """Return whether a database has refused because others write, or has gone away.

    Of two readers that both want to write, SQLite refuses one at once, however long it was ready to wait.
    """
    if getattr(error, "connection_invalidated", False):
        return True
    operational = any(one.__name__ == "OperationalError" for one in type(error).__mro__)
    return operational and _LOCKED.search(str(getattr(error, "orig", ""))) is not None


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, each once."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
