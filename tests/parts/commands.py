"""Commands of the parts of ``make test-all``, which a person may interrupt."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def call(words: Sequence[str], environment: Mapping[str, str], *, folder: Path) -> int:
    """Run a command and return its exit code. Ctrl-C reaches it, too, and it is left to end in its own time."""
    process = subprocess.Popen(words, cwd=folder, env=environment)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise
