"""A Spark standalone cluster on this machine, for one block: a master and its workers, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import Any

import pyspark

from dts_emulator.machine.ports import HOST, free_port
from dts_emulator.machine.servers import start_server, stop_server
from dts_emulator.machine.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
_START_SECONDS = 90.0
_STOP_SECONDS = 10.0
_DAEMONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class StandaloneCluster:
    """A context manager that yields the master's URL. Logs and executors' folders lie in ``folder``.

    Executors have the environment of the workers, and over it ``environment``. A worker that a test kills takes its executor with
    it.
    """

    folder: Path
    workers: int = 2
    cores: int = 1
    memory: str = "2g"
    environment: Mapping[str, str] = field(default_factory=dict)
    processes: list[Popen[bytes]] = field(default_factory=list)
    """The workers' processes."""
    _servers: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> str:
        master, page = f"spark://{HOST}:{(port := free_port())}", free_port()
        try:
            self._start("Master", "--host", HOST, "--port", str(port), "--webui-port", str(page))
            assert wait_until(lambda: _status(page) is not None, seconds=_START_SECONDS), (
                f"no master, see {self.folder}"
            )
            for number in range(self.workers):
                work = self.folder / f"worker-{number}"
                options = ("--host", HOST, "--webui-port", "0", "--work-dir", str(work))
                size = ("--cores", str(self.cores), "--memory", self.memory)
                self.processes.append(self._start("Worker", *options, *size, master))
            there = wait_until(
                lambda: (_status(page) or {}).get("aliveworkers") == self.workers, seconds=_START_SECONDS
            )
            assert there, f"not all workers came, see {self.folder}"
        except BaseException:
            self._servers.close()
            raise
        return master

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._servers.close()

    def _start(self, role: str, *arguments: str) -> Popen[bytes]:
        settings = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": _DAEMONS,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            **self.environment,
        }
        command = [
            "env", *(f"{name}={value}" for name, value in settings.items()),
            "bash", str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}", *arguments,
        ]  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        process = start_server(command, self.folder / f"{role.lower()}-{len(self.processes)}.log")
        self._servers.callback(stop_server, process, seconds=_STOP_SECONDS)
        return process


def _status(page: int) -> dict[str, Any] | None:
    """What the master says of itself; None while it does not answer."""
    address = f"http://{HOST}:{page}/json/"
    with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(address, timeout=5) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
    return None
