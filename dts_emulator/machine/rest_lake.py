"""A private Iceberg REST catalog for one block, its tables on a disk or in an S3 store.

The catalog is the fixture that Iceberg's own tests run; its parts come by their Maven coordinates, as those of the Kafka broker
do. It places tables below its own warehouse, and may vend the keys of the store to its clients.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dts_emulator.errors import EmulatorError
from dts_emulator.machine import stores
from dts_emulator.machine.ports import HOST, free_port
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

WAREHOUSE = f"s3://{stores.BUCKET}/warehouse"
_S3_IO = "org.apache.iceberg.aws.s3.S3FileIO"
_START_SECONDS = 120.0
_STOP_SECONDS = 10.0


def can_start(*, strict: bool = False) -> bool:
    """Return whether the parts of the catalog and of a store are there."""
    return JARS.is_dir() and stores.can_start(strict=strict)


@contextmanager
def private_rest_lake(*, strict: bool = False, vends: bool = False) -> Iterator[Mapping[str, str]]:
    """Run a catalog and a store for the block, and yield the properties of the catalog.

    The warehouse is :data:`WAREHOUSE`. ``strict`` takes the store that checks signatures. A catalog that ``vends`` gives the
    keys of the store to its clients with each table, so they are not among the properties.

    Raises:
        EmulatorError: A server did not come up.
    """
    with ExitStack() as servers:
        folder = Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="dts-assets-")))
        store = servers.enter_context(stores.private_store(folder, strict=strict))
        settings = {"io-impl": _S3_IO, **store}
        place = servers.enter_context(_catalog(folder, WAREHOUSE, settings, vends=vends))
        told = {name: value for name, value in store.items() if not (vends and name in stores.KEYS)}
        yield {"type": "rest", "uri": place, "io-impl": _S3_IO, **told}


@contextmanager
def private_rest_catalog(warehouse: Path) -> Iterator[Mapping[str, str]]:
    """Run a catalog with its tables in a local folder, and yield its properties.

    Raises:
        EmulatorError: It did not come up.
    """
    with (
        tempfile.TemporaryDirectory(prefix="dts-assets-") as folder,
        _catalog(Path(folder), f"file://{warehouse}", {}, vends=False) as place,
    ):
        yield {"type": "rest", "uri": place}


@contextmanager
def _catalog(folder: Path, warehouse: str, settings: Mapping[str, str], *, vends: bool) -> Iterator[str]:
    """Run the catalog, and yield its address.

    Raises:
        EmulatorError: It did not come up.
    """
    place = f"http://{HOST}:{(port := free_port())}"
    told = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=60000",
        "jdbc.schema-version": "V1",
        "warehouse": warehouse,
        "rest.port": str(port),
        "include-credentials": str(vends).lower(),
        **settings,
    }
    environment = {f"CATALOG_{_variable(name)}": value for name, value in told.items()}
    command = [
        "env", *(f"{name}={value}" for name, value in environment.items()), "AWS_REGION=us-east-1",
        "AWS_REQUEST_CHECKSUM_CALCULATION=when_required", "AWS_RESPONSE_CHECKSUM_VALIDATION=when_required",
        stores.java(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m",
        "-cp", f"{JARS}{os.sep}*", "org.apache.iceberg.rest.RESTCatalogServer",
    ]  # fmt: skip
    process = start_server(command, folder / "catalog.log")
    try:
        if not wait_until(lambda: stores.asked("GET", f"{place}/v1/config"), seconds=_START_SECONDS):
            raise EmulatorError(f"Iceberg's REST catalog did not come up at {place}")
        yield place
    finally:
        stop_server(process, seconds=_STOP_SECONDS)


def _variable(name: str) -> str:
    """Return a property as the fixture has it in its environment: ``s3.path-style-access`` is ``S3_PATH__STYLE__ACCESS``."""
    return name.upper().replace("-", "__").replace(".", "_")
