"""Servers as child processes that do not outlive the process that started them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


def start_server(command: Sequence[str], log: Path, *, on_death: str = "TERM") -> subprocess.Popen[bytes]:
    """Start a server without input, its output in ``log``, in a session of its own.

    The Ctrl-C of a terminal does not reach it. Where there is a ``setpriv`` (on every Linux), the system sends it the signal
    ``on_death`` when the thread that called this ends, also if that was killed. So the thread lives as long as the server.
    """
    setpriv = shutil.which("setpriv")
    bound = [setpriv, "--pdeathsig", on_death, *command] if setpriv else list(command)
    with log.open("ab") as output:
        return subprocess.Popen(
            bound, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )


def stop_server(process: subprocess.Popen[bytes], *, seconds: float) -> None:
    """Ask it to end; kill it if it has not after ``seconds``."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
