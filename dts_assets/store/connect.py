"""A warm Spark: a Spark Connect server with the lake's settings.

Many short runs share it instead of starting a JVM each. The server is Spark's own plug-in inside a classic session, so it
gets the settings, jars and quick start of every other session (``store/session.py``), and its JVM ends with this Python
process, whatever ends that. It listens on loopback only and asks nobody for a password: do not open it to a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dts_assets.store.catalog import LakeLocation
from dts_assets.store.machine import require_free_port
from dts_assets.store.session import open_session

HOST = "127.0.0.1"
_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


@contextmanager
def serve(lake: LakeLocation, conf: Mapping[str, str], *, master: str, port: int) -> Iterator[str]:
    """Yield the address of a server in this process, for ``spark.remote``.

    The process can then open no Connect session itself. ``port`` 0 stands for any free port.

    Raises:
        PortInUseError: Another program listens on the port.
        MissingJavaError: There is no Java, or it is too old.
        UnreachableMasterError: Nobody listens at the master's address.
    """
    require_free_port(port, host=HOST, what="the Spark Connect server")
    plugins = [_PLUGIN, *filter(None, [conf.get("spark.plugins")])]
    settings = {
        **conf,
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
        yield f"sc://{HOST}:{getattr(service, 'MODULE$').localPort()}"
    finally:
        session.stop()
