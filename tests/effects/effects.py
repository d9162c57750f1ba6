"""The effects of a run, counted, and one of them made to fail.

In the manner of SQLite's tests of I/O errors: effect number 1 fails, then number 2, until a run has no effect of that number.
What counts as an effect, and where it is caught:

- a file that is written (data file, manifest, list of manifests, metadata): pyiceberg's ``PyArrowFile.create``, through which all
  Parquet, Avro and JSON of a lake goes; it counts once, however many writes it takes;
- a file that is removed: ``PyArrowFileIO.delete``;
- a call of the catalog: loading, making and dropping a table, a commit, a namespace;
- a question to the source, and each reading of a range of it;
- a job of tasks: its start and its result;
- the registry: the writing of its file and the renaming of it.

Other grounds (:mod:`tests.effects.grounds`) have effects of their own in place of some of these.

- With a real Spark a job of tasks is a job of its workers, and a merge of a snapshot is one effect: the catalog refuses Spark's
  commit when all its files are written; the merge is done, and the answer is an error; or it goes on some calls after the run
  gave it up. What its workers and its JVM write and read counts within their job and merge, and not by itself.
- With a REST catalog every request is an effect, below pyiceberg: it fails with the status that a gateway gives (403, 429, 500,
  502, 503, 504, and 409 where a commit has lost or was sent twice) and with no text of Iceberg's, done or not; or it is cut off
  and lands later. Snapshots are made on a branch, by pyiceberg in Spark's place. Files are objects in S3. That one is cut by half
  is worse than what S3 does, which shows no part of an object.

Not caught: what SQLite itself writes (it has such tests), locks, and the reading of files that are there (it changes nothing, and
the questions to the catalog before it, which do fail, end a run at about the same places).
"""

from __future__ import annotations

import errno
import io
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest
from pyiceberg.exceptions import CommitStateUnknownException, ForbiddenError
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from requests.exceptions import ConnectionError as CutConnection
from sqlalchemy.exc import OperationalError

from dts_assets.sources.capture_source import CaptureSource
from dts_assets.store import registry
from dts_assets.store.catalog import SqliteCatalog


class Way(StrEnum):
    """How an effect fails."""

    REFUSED = "refused"
    """An error, and nothing was done."""
    UNHEARD = "unheard"
    """It was done, and the answer is an error."""
    CUT = "cut"
    """A file is written by half. A request to the catalog is cut off, and lands some calls later, perhaps in the next run."""
    FULL = "full"
    """The disk is full from then on until the run has ended; what removes and reads goes on."""


def ways_of(name: str) -> tuple[Way, ...]:
    """Return the ways in which an effect can fail and that differ: a question has no other end than no answer."""
    kind = name.partition(" ")[0]
    if name.startswith("write of the registry"):
        return (Way.REFUSED,)
    if kind in ("write", "create_table", "commit_table", "drop_table", "create_namespace"):
        return tuple(Way)
    if kind in ("delete", "rename"):
        return Way.REFUSED, Way.UNHEARD
    if kind in ("job", "read", "merge"):
        return Way.REFUSED, Way.UNHEARD, Way.CUT
    return (Way.REFUSED,)


class EffectFailed(Exception):
    """An error of no kind that anybody waits for, as an engine or a proxy may raise it."""


def disk_error(number: int = errno.EIO) -> OSError:
    return OSError(number, "made up for a test")


def _failed(_: Way) -> NoReturn:
    raise EffectFailed("no answer")


def _disk_failed(_: Way) -> NoReturn:
    raise disk_error()


def _catalog_failed(way: Way) -> NoReturn:
    if way is Way.UNHEARD:
        raise CommitStateUnknownException("504")
    raise CutConnection("the connection was cut") if way is Way.CUT else ForbiddenError("403")


class Effects:
    """The counter of a run, and the one effect that fails (None: all work). Threads may share it."""

    def __init__(self, fails: int | None = None, way: Way = Way.REFUSED, *, lands_after: int = 1) -> None:
        self.fails, self.way = fails, way
        self.names: list[str] = []
        self._lands_after = lands_after
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._full = False
        self._over = False
        self._lock = threading.RLock()
        self._within = threading.local()

    @property
    def name(self) -> str:
        """The effect that failed."""
        return self.names[self.fails - 1] if self.fails is not None and len(self.names) >= self.fails else "none"

    def end(self) -> None:
        """The run has ended, and the next one finds everything working; requests that are on their way stay so."""
        self._over, self._full = True, False

    def way_of(self, name: str) -> Way | None:
        """Count an effect, and return how it fails; None if it works."""
        with self._lock:
            if self._over:
                return None
            self.names.append(name)
            if len(self.names) != self.fails:
                return None
            self._full = self.way is Way.FULL
            return self.way

    def of(
        self,
        name: str,
        do: Callable[[], Any],
        *,
        lands: bool = False,
        writes: bool = False,
        heard: Callable[[Way], Any] | None = None,
    ) -> Any:
        """Do one thing that either happens or not, in the way that its number has.

        ``lands`` says that it is a request that may be cut off and land later. ``heard`` is what its caller hears in place of an
        answer: it raises an error, or returns what a gateway would.
        """
        heard = heard or (_catalog_failed if lands else _failed)
        if getattr(self._within, "effect", False):
            return do()
        way = self.way_of(name)
        if way is None and writes and self._full:
            way = Way.FULL
        self._within.effect = True
        try:
            if way is None:
                return do()
            if way is Way.UNHEARD:
                do()
                return heard(way)
            if way is Way.FULL:
                if not writes:
                    return do()
                raise OperationalError("UPDATE", {}, Exception("database or disk is full"))
            if way is Way.CUT and lands:
                self.later(do)
            return heard(way)
        finally:
            self._within.effect = False

    def later(self, do: Callable[[], object], after: int | None = None) -> None:
        """Have something done some calls of the catalog later, of the number that all requests have by default."""
        self._late.append((self._lands_after if after is None else after, do))

    def request(
        self,
        name: str,
        do: Callable[[], Any],
        *,
        lands: bool = False,
        writes: bool = False,
        heard: Callable[[Way], Any] | None = None,
    ) -> Any:
        """Do what the catalog is asked for, after the requests that arrive now."""
        if getattr(self._within, "effect", False):
            return do()
        with self._lock:
            arriving = [one for left, one in self._late if left <= 1]
            self._late = [(left - 1, one) for left, one in self._late if left > 1]
        for one in arriving:
            self._arrive(one)
        return self.of(name, do, lands=lands, writes=writes, heard=heard)

    def arrive(self) -> None:
        """Let all requests that are still on their way land, or be refused."""
        late, self._late = self._late, []
        for _, one in late:
            self._arrive(one)

    def _arrive(self, request: Callable[[], object]) -> None:
        self._within.effect = True
        try:
            with suppress(Exception):
                request()
        finally:
            self._within.effect = False

    def file(self, name: str, create: Callable[[], Any]) -> Any:
        """Return a stream that is written as a whole when it is closed, in the way that its number has."""
        way = Way.FULL if (found := self.way_of(name)) is None and self._full else found
        if way is Way.REFUSED:
            raise disk_error(errno.EACCES)
        return _Stream(create, way)


class _Stream(io.BytesIO):
    """A file that reaches the disk when it is closed: all of it, or half of it and an error."""

    def __init__(self, create: Callable[[], Any], way: Way | None) -> None:
        super().__init__()
        self._create, self._way = create, way

    def close(self) -> None:
        if self.closed:
            return
        written = self.getvalue()
        super().close()
        with self._create() as stream:
            stream.write(written[: len(written) // 2] if self._way in (Way.CUT, Way.FULL) else written)
        if self._way is not None:
            raise disk_error(errno.ENOSPC if self._way is Way.FULL else errno.EIO)

    def __del__(self) -> None:  # a stream that nobody closes has written nothing
        pass


_CATALOG = {
    "load_table": (False, False),
    "create_table": (True, True),
    "commit_table": (True, True),
    "drop_table": (True, True),
    "create_namespace": (True, True),
    "namespace_exists": (False, False),
}
"""The calls of a catalog: whether they may land later, and whether they write."""

_QUESTIONS = ("watermarks", "now", "offset_for_time", "offsets_for_times", "dated_after")


class Catches(Protocol):
    """What knows the calls of a catalog and of what runs tasks."""

    def catch(self, effects: Effects, patch: pytest.MonkeyPatch) -> None:
        """Have them counted, until ``patch`` is undone."""
        ...


@contextmanager
def caught(effects: Effects, ground: Catches) -> Iterator[None]:
    """Have all effects of this process counted by ``effects``."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyiceberg warns where an old metadata file cannot be removed
        create, delete, read = PyArrowFile.create, PyArrowFileIO.delete, CaptureSource.read

        def created(file: PyArrowFile, overwrite: bool = False) -> Any:
            return effects.file(f"write {_kind(file.location)}", partial(create, file, overwrite))

        def deleted(store: PyArrowFileIO, location: Any) -> Any:
            return effects.of("delete", lambda: delete(store, location), heard=_disk_failed)

        def ranged(source: CaptureSource, kafka_partition: int, offsets: Any) -> Iterator[Any]:
            way = effects.way_of("read of the source")
            if way is Way.REFUSED:
                raise EffectFailed("the source is away")
            batches = list(read(source, kafka_partition, offsets))
            for batch in batches:
                yield batch.slice(0, batch.num_rows // 2) if way is Way.CUT else batch
                if way is Way.CUT:
                    break
            if way in (Way.CUT, Way.UNHEARD):
                raise EffectFailed("the source went away")

        patch.setattr(PyArrowFile, "create", created)
        patch.setattr(PyArrowFileIO, "delete", deleted)
        patch.setattr(CaptureSource, "read", ranged)
        for name in _QUESTIONS:
            patch.setattr(CaptureSource, name, _question(effects, name))
        _catch_registry(effects, patch)
        ground.catch(effects, patch)
        yield


def catch_sqlite(effects: Effects, patch: pytest.MonkeyPatch) -> None:
    """Have the calls of a SQLite catalog counted."""
    for name, (lands, writes) in _CATALOG.items():
        patch.setattr(SqliteCatalog, name, _asked(effects, name, lands, writes))


class SqliteAlone:
    """The ground of a run whose jobs and merges are a real Spark's, and count no effect."""

    def catch(self, effects: Effects, patch: pytest.MonkeyPatch) -> None:
        catch_sqlite(effects, patch)


def _kind(location: str) -> str:
    name = location.rpartition("/")[2]
    table = location.rpartition("/data/" if "/data/" in location else "/metadata/")[0].rpartition("/lake/")[2]
    return f"{table} {'list' if name.startswith('snap-') else name.partition('.')[2]}"


def _asked(effects: Effects, name: str, lands: bool, writes: bool) -> Callable[..., Any]:
    real = getattr(SqliteCatalog, name)

    def ask(catalog: Any, *asked: Any, **named: Any) -> Any:
        table = (asked or tuple(named.values()))[0]
        table = table.name() if name == "commit_table" else table
        said = f"{name} {'.'.join(table) if isinstance(table, tuple) else table}"
        return effects.request(said, lambda: real(catalog, *asked, **named), lands=lands, writes=writes)

    return ask


def _question(effects: Effects, name: str) -> Callable[..., Any]:
    real = getattr(CaptureSource, name)
    return lambda source, *asked, **named: effects.of(f"source {name}", lambda: real(source, *asked, **named))


def _catch_registry(effects: Effects, patch: pytest.MonkeyPatch) -> None:
    text = registry._text
    renamed = Path.replace

    def written(*content: Any) -> str:
        whole, way = text(*content), effects.way_of("write of the registry")
        if way is None:
            return whole
        raise disk_error(errno.ENOSPC if way is Way.FULL else errno.EIO)

    def replaced(path: Path, target: Any) -> Any:
        return effects.of("rename", lambda: renamed(path, target), heard=_disk_failed)

    patch.setattr(registry, "_text", written)
    patch.setattr(Path, "replace", replaced)
