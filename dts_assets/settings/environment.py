"""The process environment as libraries need it; ``settings.load`` alone reads it beside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def java_home() -> str | None:
    """Return the folder that JAVA_HOME names; None without the variable."""
    return os.environ.get("JAVA_HOME")


def writable_folder(folder: Path) -> Path:
    """Return a folder for files that commands make, or Dagster's home if nothing can be written there.

    Without ``DAGSTER_HOME`` it is the folder in any case.
    """
    there = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    home = os.environ.get("DAGSTER_HOME")
    return folder if not home or os.access(there, os.W_OK | os.X_OK) else Path(home).resolve() / folder.name


def variables_of(names: Iterable[str]) -> dict[str, str]:
    """Return the values of some variables, those that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def set_where_unset(variables: Mapping[str, str]) -> None:
    """Set variables where nobody has set them, for libraries that can be told in no other way."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def set_variables(variables: Mapping[str, str]) -> None:
    """Set variables, whoever has set them before."""
    os.environ.update(variables)


@contextmanager
def changed_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a while, for a library that starts a process."""
    before = variables_of(variables)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


def shows_tracebacks() -> bool:
    """Return whether a command that ends by an error that nobody expected shows where it was raised."""
    return bool(os.environ.get("DTS_ASSETS_TRACEBACK"))


def executors_python() -> str:
    """Return the Python that Spark starts on executors, as its variable names it."""
    return os.environ.get("PYSPARK_PYTHON", "python3")
