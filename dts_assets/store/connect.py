"""A warm Spark: a Spark Connect server with the lake's settings.

Many short runs share it instead of starting a JVM each. The server is Spark's own plug-in inside a classic session, so it
gets the settings, jars and quick start of every other session (``store/session.py``), and its JVM ends with this Python
process, whatever ends that. It listens on loopback only and asks nobody for a password: do not open it to a network.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dts_assets.errors import PortInUseError, SparkServerError
from dts_assets.settings.environment import child_environment
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = "127.0.0.1"
_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_READY_SECONDS = 120.0
_STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class WarmServer:
    """A server that answers: its ``address`` for ``spark.remote``, and the classic session that it lives in."""

    address: str
    session: SparkSession


@contextmanager
def serve(
    lake: LakeLocation, conf: Mapping[str, str] | None = None, *, master: str = "local[2]", port: int = 0
) -> Iterator[WarmServer]:
    """Yield a server in this process, which can then open no Connect session itself.

    ``port`` 0 stands for any free port.

    Raises:
        PortInUseError: Another program listens on the port.
        MissingJavaError: There is no Java, or it is too old.
    """
    _require_free(port)
    plugins = [_PLUGIN, *filter(None, [(conf or {}).get("spark.plugins")])]
    settings = {
        **(conf or {}),
        "spark.plugins": ",".join(plugins),
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        # Workers of Python are kept by environment, and a session with files of its own would have an environment of its own:
        # every run would begin with new workers.
        "spark.sql.artifact.isolation.enabled": "false",
    }
    session = open_session(lake, settings, master=master, name="dts-assets-server")
    try:
        context: Any = session.sparkContext
        service = getattr(context._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
        yield WarmServer(f"sc://{HOST}:{getattr(service, 'MODULE$').localPort()}", session)
    finally:
        session.stop()


def _require_free(port: int) -> None:
    """Raise an error if another program listens on the port: Spark's own error is forty lines long.

    Raises:
        PortInUseError: Another program listens on the port.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise PortInUseError(port, what="the Spark Connect server") from None


@contextmanager
def server_process(config: Path, *, port: int = 0, log: Path | None = None) -> Iterator[str]:
    """Yield the address of a server of its own, run by ``dts-assets spark-server`` as a child process.

    The server answers when the block begins, and ends with this process even if that is killed. Spark's messages go to ``log``.

    Raises:
        SparkServerError: The server ended before it answered, or did not answer in time.
    """
    command = [sys.executable, "-m", "dts_assets", "spark-server", "--config", str(config), "--port", str(port)]
    environment = child_environment(without=("SPARK_REMOTE",))
    with (log or Path(os.devnull)).open("ab") as stream:
        process = subprocess.Popen(
            [*command, "--end-with-input"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True, env=environment,
        )  # fmt: skip
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield _address(process, process.stdout, log)
        finally:
            process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[str], output: IO[str], log: Path | None) -> str:
    """Return the address that a server prints when it is ready: ``sc://127.0.0.1:15002``.

    Raises:
        SparkServerError: The server ended, or did not print it in time.
    """
    timer = threading.Timer(_READY_SECONDS, process.kill)
    timer.start()
    try:
        for line in output:
            if line.startswith("sc://"):
                return line.strip()
    finally:
        timer.cancel()
    raise SparkServerError(process.wait(), None if log is None else str(log))
