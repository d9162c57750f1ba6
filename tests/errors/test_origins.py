"""Errors of libraries are known by name: what each tells of, and that the libraries still have these names."""

from __future__ import annotations

import errno
import importlib

import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    ResolveError,
    ServiceUnavailableError,
)
from pyspark.errors import AnalysisException, PySparkException
from requests.exceptions import ConnectTimeout, SSLError
from sqlalchemy.exc import IntegrityError, OperationalError

from dts_assets.errors import LakeTableError, OvertakenError, SetBackTableError, StaleGenerationError
from dts_assets.errors.origins import _BY_CLASS, Origin, concerns_table, origin_of
from dts_assets.errors.sources import UnreachableBrokerError

HOMES = {"pyiceberg": "pyiceberg.exceptions", "requests": "requests.exceptions", "py4j": "py4j.protocol"}


class LaterError(LakeTableError):
    retriable = True


@pytest.mark.parametrize("name", _BY_CLASS)
def test_each_listed_class_is_one_of_its_library(name: str) -> None:
    package, _, cls = name.partition(".")
    found = getattr(importlib.import_module(HOMES[package]), cls)
    assert issubclass(found, Exception)
    assert found.__module__.partition(".")[0] == package, "its classes are known by the package that defines them"


@pytest.mark.parametrize(
    ("error", "origin"),
    [
        (CommitFailedException("c"), Origin.FASTER),
        (PySparkException("org.apache.iceberg.exceptions.CommitFailedException: c"), Origin.FASTER),
        (OperationalError("INSERT", {}, Exception("database is locked")), Origin.BUSY),
        (IntegrityError("INSERT", {}, Exception("x"), connection_invalidated=True), Origin.BUSY),
        (IntegrityError("INSERT", {}, Exception("UNIQUE failed: locked")), Origin.RUN),
        (PySparkException("[SQLITE_BUSY] The database file is locked"), Origin.BUSY),
        (ServiceUnavailableError("503"), Origin.SILENT),
        (ConnectTimeout("late"), Origin.SILENT),
        (SSLError("certificate"), Origin.RUN),
        (CommitStateUnknownException("504"), Origin.UNSURE),
        (BadRequestError("400: the name of this table is too long"), Origin.TABLE),
        (ForbiddenError("403"), Origin.RUN),
    ],
    ids=str,
)
def test_the_nearest_listed_class_decides(error: Exception, origin: Origin) -> None:
    assert origin_of(error) is origin


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        KeyError("a"), ValueError("b"), RecursionError(), pa.ArrowInvalid("c"), ZeroDivisionError(), ResolveError("d"),
        LakeTableError("shop.x", "it has no column a"), AnalysisException("cannot resolve `a`"),
        FileNotFoundError(errno.ENOENT, "gone"), OSError(errno.ENAMETOOLONG, "long"), FileNotFoundError("no errno"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_nobody_expected_pauses_the_table(error: Exception) -> None:
    assert concerns_table(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "disk"), OSError("no errno"), PermissionError(errno.EACCES, "no"),
        ConnectionResetError(), TimeoutError(), MemoryError(), pa.ArrowMemoryError("m"), KeyboardInterrupt(), SystemExit(),
        OvertakenError("shop", "tables"), StaleGenerationError("t", expected="a", found="b"), LaterError("t", "busy"),
        SetBackTableError("t", current=1, newest=2), UnreachableBrokerError("host:9092", "refused", seconds=5),
        ServiceUnavailableError("503"), ForbiddenError("403"), CommitFailedException("c"),
        OperationalError("UPDATE", {}, Exception("disk full")), caused(RuntimeError("x"), OSError(errno.ENOSPC, "full")),
        AnalysisException("java.lang.OutOfMemoryError: heap"), AnalysisException("Job 7 cancelled because of the stage"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_concerns_the_run_pauses_no_table(error: BaseException) -> None:
    assert not concerns_table(error)


def test_errors_that_go_round_in_a_circle_are_looked_at_once() -> None:
    one, other = KeyError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert concerns_table(one)
