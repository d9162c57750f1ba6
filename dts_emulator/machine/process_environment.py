"""The only reader of the process environment in the laboratory."""

from __future__ import annotations

import os
from collections.abc import Mapping


def java_home() -> str | None:
    """Return the folder that JAVA_HOME names; None without the variable."""
    return os.environ.get("JAVA_HOME")


def child_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process: this process's own, and over it ``added``."""
    return {**os.environ, **added}
