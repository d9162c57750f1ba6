"""Spark's JVM, started so that none of its settings stands in a command line.

Every user of the machine could read it there.

PySpark hands settings to ``spark-submit`` one by one, as arguments. Here they are a file of properties that has no name and is in
memory: the JVM and its launcher inherit it, and it goes with them, whatever ends them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dts_assets.errors.machine import MissingJarsError
from dts_assets.model.spark_masters import is_connect
from dts_assets.settings.environment import changed_variables, variables_of
from dts_assets.store.jars import FETCHED, missing_jars

_ARGUMENTS, _FOLDER = "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"
"""The variables with more arguments for ``spark-submit``, and with the folder of Spark's defaults."""

_SHELL = "pyspark-shell"
_DEFAULTS = "spark-defaults.conf"
_ESCAPED = {ord(one): f"\\{one}" for one in "\\ =:#!"} | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def start_jvm(conf: Mapping[str, str], *, master: str) -> None:
    """Start the JVM of this process with these settings, for the session that is opened next.

    Nothing is done where it runs, or where Spark is a server. A file of properties takes the place of Spark's defaults, so these
    are its first lines.

    Raises:
        MissingJarsError: The JVM has ended, and packages that it was to fetch are not there.
        PySparkException: The JVM has ended for another reason.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    if is_connect(master) or SparkContext._gateway is not None:
        return
    given, others = _given_arguments()
    text = _text_of(_defaults() if given is None else Path(given)) + properties_text(conf)
    with _unnamed_file(text) as (path, inherited):
        # The last argument is the program, and of several files Spark takes the last one.
        arguments = shlex.join([*others[:-1], "--properties-file", path, others[-1]])
        with changed_variables({_ARGUMENTS: arguments}):
            try:
                gateway = launch_gateway(popen_kwargs={"pass_fds": inherited})  # type: ignore[no-untyped-call]
            except PySparkException as error:
                missing = missing_jars(conf.get("spark.jars.packages", ""), conf)
                if missing:
                    raise MissingJarsError(missing, str(FETCHED.expanduser())) from error
                raise
    SparkContext._ensure_initialized(gateway=gateway)


def properties_text(conf: Mapping[str, str]) -> str:
    """Return settings as lines of Java's properties: ``spark.master=local[2]``."""
    return "".join(f"{name.translate(_ESCAPED)}={value.translate(_ESCAPED)}\n" for name, value in conf.items())


def _given_arguments() -> tuple[str | None, list[str]]:
    """Return the file of properties that a person gives ``spark-submit`` by the variable, and the other arguments."""
    written = shlex.split(variables_of([_ARGUMENTS]).get(_ARGUMENTS, "")) or [_SHELL]
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--properties-file")
    found, others = parser.parse_known_args(written)
    return found.properties_file, others


def _defaults() -> Path:
    """Return the file of Spark's defaults, which may be absent."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(variables_of([_FOLDER]).get(_FOLDER) or Path(_find_spark_home()) / "conf") / _DEFAULTS  # type: ignore[no-untyped-call]


def _text_of(path: Path) -> str:
    """Return the text of a file of properties and an end of line; without the file nothing."""
    with suppress(FileNotFoundError):
        return path.read_text("utf-8") + "\n"
    return ""


@contextmanager
def _unnamed_file(text: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the path of a file for child processes, and the descriptors that they inherit for it.

    Where a system has no files in memory, it is a file of this user alone that is removed at once.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="dts-assets-") as file:
            file.write(text)
            file.flush()
            yield file.name, ()
        return
    with open(os.memfd_create("spark-settings"), "w", encoding="utf-8") as file:  # noqa: PTH123  # it has no path
        file.write(text)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}", (file.fileno(),)
