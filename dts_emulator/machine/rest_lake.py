"""A private lake on no disk: an Iceberg REST catalog and an S3 store, for one block.

The catalog is the fixture that Iceberg's own tests run; its parts come by their Maven coordinates, as those of the Kafka broker
do. The store is moto's server, which checks no password and loses everything at its end.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from dts_emulator.errors import EmulatorError
from dts_emulator.machine.ports import HOST, free_port
from dts_emulator.machine.process_environment import java_home
from dts_emulator.machine.servers import start_server, stop_server
from dts_emulator.machine.waiting import wait_until

ICEBERG, JETTY = "1.11.0", "12.1.6"
COORDINATES = (
    f"org.apache.iceberg:iceberg-open-api:{ICEBERG}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{ICEBERG}",
    f"org.apache.iceberg:iceberg-core:{ICEBERG}:tests",
    f"org.apache.iceberg:iceberg-aws:{ICEBERG}",
    f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}",
    f"org.eclipse.jetty:jetty-server:{JETTY}",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{JETTY}",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.xerial:sqlite-jdbc:3.51.0.0",
    "org.slf4j:slf4j-simple:2.0.17",
)
"""Maven's names of the catalog; a fourth part is a classifier."""

JARS = Path(sys.prefix) / "share" / "dts-assets" / f"iceberg-rest-{ICEBERG}"
"""The folder that the set-up puts them into."""

WAREHOUSE = "s3://lake/warehouse"
_START_SECONDS = 120.0
_STOP_SECONDS = 10.0
_KEYS = {"s3.access-key-id": "made-up", "s3.secret-access-key": "made-up"}


def can_start() -> bool:
    """Return whether the parts of both servers are there."""
    return JARS.is_dir() and find_spec("moto") is not None


@contextmanager
def private_rest_lake() -> Iterator[Mapping[str, str]]:
    """Run both servers for the length of the block, and yield the catalog's properties; the warehouse is :data:`WAREHOUSE`.

    Raises:
        EmulatorError: A server did not come up.
    """
    with ExitStack() as servers:
        folder = Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="dts-assets-")))
        store, catalog = f"http://{HOST}:{(store_port := free_port())}", f"http://{HOST}:{(port := free_port())}"
        moto = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(store_port)]
        process = start_server(moto, folder / "store.log")
        servers.callback(stop_server, process, seconds=_STOP_SECONDS)
        if not wait_until(lambda: _asked("PUT", f"{store}/lake"), seconds=_START_SECONDS):
            raise EmulatorError(f"moto's S3 did not come up at {store}")
        home = java_home()
        java = "java" if home is None else str(Path(home) / "bin" / "java")
        settings = _settings(folder, store, port)
        command = [
            "env", *(f"{name}={value}" for name, value in settings.items()),
            java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m",
            "-cp", f"{JARS}{os.sep}*", "org.apache.iceberg.rest.RESTCatalogServer",
        ]  # fmt: skip
        process = start_server(command, folder / "catalog.log")
        servers.callback(stop_server, process, seconds=_STOP_SECONDS)
        if not wait_until(lambda: _asked("GET", f"{catalog}/v1/config"), seconds=_START_SECONDS):
            raise EmulatorError(f"Iceberg's REST catalog did not come up at {catalog}")
        yield {
            "type": "rest",
            "uri": catalog,
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": store,
            "s3.path-style-access": "true",
            "s3.region": "us-east-1",
            "client.region": "us-east-1",
            **_KEYS,
        }


def _settings(folder: Path, store: str, port: int) -> dict[str, str]:
    """Return the environment that the catalog takes its settings from. Its keys are made up, and open nothing."""
    return {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=60000",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": WAREHOUSE,
        "CATALOG_REST_PORT": str(port),
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": store,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_S3_ACCESS__KEY__ID": _KEYS["s3.access-key-id"],
        "CATALOG_S3_SECRET__ACCESS__KEY": _KEYS["s3.secret-access-key"],
        "CATALOG_CLIENT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
    }


def _asked(method: str, url: str) -> bool:
    """Return whether a server answers well."""
    request = urllib.request.Request(url, method=method)
    with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(request, timeout=5) as answer:
        return bool(answer.status == 200)
    return False
