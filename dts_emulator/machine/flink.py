"""Apache Flink in a Java process of its own, for one block: its Table API, called through py4j.

Its parts come by their Maven coordinates, as those of the Kafka broker do. Flink runs its jobs in that one process, on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j import java_gateway
from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JJavaError, get_return_value

from dts_emulator.errors import EmulatorError
from dts_emulator.machine.stores import java

FLINK, ICEBERG, HADOOP = "2.0.0", "1.10.1", "3.4.2"
COORDINATES = (
    f"org.apache.flink:flink-clients:{FLINK}",
    f"org.apache.flink:flink-table-api-java-uber:{FLINK}",
    f"org.apache.flink:flink-table-planner-loader:{FLINK}",
    f"org.apache.flink:flink-table-runtime:{FLINK}",
    f"org.apache.flink:flink-connector-files:{FLINK}",
    f"org.apache.flink:flink-connector-datagen:{FLINK}",
    f"org.apache.flink:flink-cep:{FLINK}",
    f"org.apache.flink:flink-json:{FLINK}",
    f"org.apache.iceberg:iceberg-flink-runtime-2.0:{ICEBERG}",
    f"org.apache.hadoop:hadoop-client-api:{HADOOP}",
    f"org.apache.hadoop:hadoop-client-runtime:{HADOOP}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
)
"""Maven's names of Flink, its JSON formats and Iceberg's tables. Of Flink 2.0 only this release has all parts there."""

JARS = Path(sys.prefix) / "share" / "dts-assets" / f"flink-{FLINK}"
"""The folder that ``scripts/fetch_broker.py flink`` puts them into."""

_OPENED = (
    "java.lang", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.text", "java.time", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.net.util", "sun.nio.ch",
)  # fmt: skip
"""Packages that Flink looks into, as its own start scripts open them."""

_SETTINGS = {
    "execution.target": "local",
    "execution.attached": "true",
    "execution.checkpointing.interval": "10 s",  # a commit of Iceberg's sink for each
    "parallelism.default": "1",  # changes of a key stay in order
    "restart-strategy.type": "none",  # an error ends the job, and is told
}
_END_SECONDS = 60.0


@contextmanager
def private_flink(*, memory: str = "2g") -> Iterator[Any]:
    """Start Flink for the block, and yield a streaming ``TableEnvironment`` of Java.

    ``memory`` is the limit of Java's heap. The process has ended when the block has been left.

    Raises:
        EmulatorError: The jars have not been fetched.
    """
    if not JARS.is_dir():
        raise EmulatorError(
            f"the jars of Flink are not in {JARS}: run {sys.executable} scripts/fetch_broker.py flink in the checkout"
        )
    py4j = find_jar_path()
    port, process = launch_gateway(
        classpath=f"{JARS}/*:{py4j}", jarpath=py4j, java_path=java(), die_on_exit=True, return_proc=True,
        javaopts=[f"-Xmx{memory}", *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED)],
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    # PySpark puts its own reader of Java's exceptions into py4j once a session has been opened, and it asks Spark's Java process.
    of_spark, java_gateway.get_return_value = java_gateway.get_return_value, get_return_value
    try:
        flink = gateway.jvm.org.apache.flink
        settings = flink.configuration.Configuration()
        for name, value in _SETTINGS.items():
            settings.setString(name, value)
        made = flink.table.api.EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build()
        yield flink.table.api.TableEnvironment.create(made)
    finally:
        java_gateway.get_return_value = of_spark
        gateway.shutdown()
        process.stdin.close()  # at which the process ends, whatever threads Flink has left
        process.wait(_END_SECONDS)


def run_statement(tables: Any, statement: str) -> None:
    """Run a statement of Flink's SQL to its end, the job of an ``INSERT`` among them.

    Raises:
        EmulatorError: Flink failed; the text has all causes.
    """
    try:
        result = tables.executeSql(statement)
        if statement.lstrip().upper().startswith("INSERT"):
            getattr(result, "await")()
    except Py4JJavaError as error:
        causes, cause = [], error.java_exception
        while cause is not None:  # told here: once Java has ended nobody can ask
            causes.append(cause.toString())
            cause = cause.getCause()
        raise EmulatorError("Flink failed: " + "; ".join(causes)) from None
