"""The process environment as libraries and child processes need it; ``settings.load`` alone reads it beside."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping


def java_home() -> str | None:
    """Return the folder that JAVA_HOME names; None without the variable."""
    return os.environ.get("JAVA_HOME")


def set_where_unset(variables: Mapping[str, str]) -> None:
    """Set variables where nobody has set them, for libraries that can be told in no other way."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def child_environment(added: Mapping[str, str] | None = None, *, without: Collection[str] = ()) -> dict[str, str]:
    """Return the environment for a child process: this process's own, less ``without``, and over it ``added``."""
    inherited = {name: value for name, value in os.environ.items() if name not in without}
    return {**inherited, **(added or {})}
