"""S3 stores of this machine for one block: one that lets everybody in, and a strict one.

The first is moto's server, which checks no password and loses everything at its end. The strict one checks signatures and knows
neither checksums nor chunks of newer clients, as some vendors' stores do not; its parts come by their Maven coordinates.
"""

from __future__ import annotations

import contextlib
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from dts_emulator.errors import EmulatorError
from dts_emulator.machine.ports import HOST, free_port, listens
from dts_emulator.machine.process_environment import java_home
from dts_emulator.machine.servers import start_server, stop_server
from dts_emulator.machine.waiting import wait_until

S3PROXY = "3.1.0"
COORDINATES = (f"org.gaul:s3proxy:{S3PROXY}",)
"""Maven's name of the strict store; what it needs comes with it."""

JARS = Path(sys.prefix) / "share" / "dts-assets" / f"s3proxy-{S3PROXY}"
"""The folder that the set-up puts it into."""

BUCKET = "lake"
KEYS = {"s3.access-key-id": "made-up", "s3.secret-access-key": "made-up-too"}
"""The keys of the strict store, by Iceberg's names. They open nothing else."""

_LOGGING = """<configuration>
<appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%level %logger %msg%n</pattern></encoder></appender>
<root level="warn"><appender-ref ref="out"/></root>
</configuration>"""
"""The logging of the strict store; its own writes lines for each request of a socket."""

_START_SECONDS = 120.0
_STOP_SECONDS = 10.0


def can_start(*, strict: bool) -> bool:
    """Return whether the parts of a store are there."""
    return JARS.is_dir() if strict else find_spec("moto") is not None


@contextmanager
def private_store(folder: Path, *, strict: bool) -> Iterator[Mapping[str, str]]:
    """Run a store with an empty bucket ``lake``, and yield Iceberg's properties for it.

    Keys are among them. The strict one keeps its objects in ``folder``.

    Raises:
        EmulatorError: The store did not come up.
    """
    port = free_port()
    place = f"http://{HOST}:{port}"
    command = _s3proxy(folder, place) if strict else [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    process = start_server(command, folder / "store.log")
    try:
        ready = wait_until(
            lambda: listens(port) if strict else asked("PUT", f"{place}/{BUCKET}"), seconds=_START_SECONDS
        )
        if not ready:
            raise EmulatorError(f"the S3 store did not come up at {place}")
        yield {
            "s3.endpoint": place,
            "s3.path-style-access": "true",
            "s3.region": "us-east-1",
            "client.region": "us-east-1",
            **KEYS,
        }
    finally:
        stop_server(process, seconds=_STOP_SECONDS)


def java() -> str:
    """Return the Java that servers of this machine are started with."""
    home = java_home()
    return "java" if home is None else str(Path(home) / "bin" / "java")


def asked(method: str, url: str) -> bool:
    """Return whether a server answers well."""
    request = urllib.request.Request(url, method=method)
    with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(request, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def _s3proxy(folder: Path, place: str) -> list[str]:
    """Write the settings of the strict store, and return its command."""
    objects = folder / "objects"
    (objects / BUCKET).mkdir(parents=True)
    settings = folder / "store.properties"
    settings.write_text(
        "s3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.endpoint={place}\n"
        f"s3proxy.identity={KEYS['s3.access-key-id']}\n"
        f"s3proxy.credential={KEYS['s3.secret-access-key']}\n"
        "jclouds.provider=filesystem-nio2\n"
        f"jclouds.filesystem.basedir={objects}\n"
    )
    logging = folder / "logback.xml"
    logging.write_text(_LOGGING)
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", f"-Dlogback.configurationFile={logging}"]
    return [java(), *options, "-cp", f"{JARS}/*", "org.gaul.s3proxy.Main", "--properties", str(settings)]
