"""The process environment as libraries need it; ``settings.load`` alone reads it beside."""

from __future__ import annotations

import os
from collections.abc import Mapping


def java_home() -> str | None:
    """Return the folder that JAVA_HOME names; None without the variable."""
    return os.environ.get("JAVA_HOME")


def set_where_unset(variables: Mapping[str, str]) -> None:
    """Set variables where nobody has set them, for libraries that can be told in no other way."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)
