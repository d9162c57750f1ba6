"""Spark sessions for the lake, with settings that suit small machines unless the user says otherwise.

Inside Dagster the session comes from its Spark resource, which is given :func:`spark_conf`; :func:`open_session` is for scripts.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dts_assets.errors.spark import ExecutorPythonError
from dts_assets.model.spark_masters import is_connect, is_on_this_machine, runs_here
from dts_assets.settings.environment import set_variables, set_where_unset, variables_of
from dts_assets.store.catalog import LakeLocation, spark_catalog_conf
from dts_assets.store.catalog_properties import CHECKSUM_VARIABLES, checksum_options
from dts_assets.store.jars import fetched_jars
from dts_assets.store.jvm import start_jvm
from dts_assets.store.machine import require_java, require_master
from dts_assets.store.package import ARCHIVE, package_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS_ARCHIVE = Path(sys.prefix) / "share" / "dts-assets" / "spark-classes.jsa"
"""The archive of Spark's Java classes as the JVM has loaded and checked them.

The set-up makes the archive (scripts/archive_classes.py).
"""

_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""The options for the quick one of Java's two compilers alone.

On two cores the thorough compiler costs more than it gains, even in a run that merges 1.2 GB of changes for two minutes (tables
of a window: 20 to 24 s, with it 23 to 29 s; a cold window 24 s, with it 33 s).
"""

_ARCHIVED = (f"-XX:SharedArchiveFile={CLASS_ARCHIVE}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""The options for classes from the archive. A JVM that cannot use the archive goes on without it and prints nothing."""

_DAEMON = "dts_assets.flows.spark_daemon"
"""The module that Python workers are forked from: Spark's own, which has imported the modules that tasks need."""

_LOGGING = Path(__file__).with_name("log4j2.properties")
_TRIES, _LONGEST_PAUSE = 9, 5000
"""The number of times that a server is asked again, and the longest pause in milliseconds.

They are few, because a run that waits keeps others waiting, and would be repeated anyway.
"""

_JOINED_BY_COMMA = (
    "spark.jars.packages", "spark.jars", "spark.sql.extensions", "spark.jars.repositories", "spark.submit.pyFiles",
)  # fmt: skip

SMALL_MACHINE: Mapping[str, str] = {
    # Four partitions with adaptive execution were as fast as any other number on two cores; 200 without it took three times as
    # long and left 200 files.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Messages may be half a megabyte: a batch of Spark's default 10,000 rows would be larger than Arrow's offsets can address.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""The settings that differ from Spark's own defaults."""

_OF_SMALL_MACHINES = ("spark.sql.shuffle.partitions",)
"""The settings of :data:`SMALL_MACHINE` that fit no cluster: with Spark's own the parts follow its cores."""


def spark_conf(
    lake: LakeLocation, conf: Mapping[str, str] | None = None, *, master: str = "local[2]"
) -> dict[str, str]:
    """Return all settings of a session.

    They are the settings of the catalog ``lake`` and the settings for small machines; the user's ``conf`` overrides both.
    Lists of packages, jars and extensions are joined with the user's, not replaced by them. To a Spark Connect server (an
    address that begins with ``sc://``) a session gives only the settings of queries; the server was started with the others
    (``dts-assets spark-server`` does so).

    On a local master packages that were fetched before are named by their paths: resolving them again took 1.3 s of the 10 s
    to the first insert, and thirty lines on stderr. The JVM is also told to start quickly; its options in ``conf`` come behind
    and win. A cluster gets the same for its executors, and dts-assets itself.

    Raises:
        UnwritableLakeError: A SQLite catalog has no local path.
    """
    user = dict(conf or {})
    if is_connect(master):
        return {**_of_queries(_without_small(SMALL_MACHINE)), **_of_queries(user), "spark.remote": master}
    small = SMALL_MACHINE if runs_here(master) else _without_small(SMALL_MACHINE)
    made = {**small, **spark_catalog_conf(lake, user), "spark.master": master, "spark.python.daemon.module": _DAEMON}
    if is_on_this_machine(master):
        made |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not runs_here(master):
        made["spark.submit.pyFiles"] = str(package_archive())
    for name in _JOINED_BY_COMMA:
        if name in made and name in user:
            user[name] = ",".join(dict.fromkeys([*made[name].split(","), *user[name].split(",")]))
    conf = {**made, **user}
    if runs_here(master) and not user.keys() & {"spark.jars.ivy", "spark.jars.ivySettings"}:
        fetched = fetched_jars(conf["spark.jars.packages"])
        if fetched:
            del conf["spark.jars.packages"]
            _join(conf, "spark.driver.extraClassPath", ":".join(map(str, fetched)), ":")
    quick = _SHORT_LIVED + (_ARCHIVED if CLASS_ARCHIVE.is_file() else ())
    _join(conf, "spark.driver.extraJavaOptions", " ".join(quick), " ")
    if not runs_here(master):
        _prepare_executors(conf)
    if "log4j" not in conf["spark.driver.extraJavaOptions"]:
        _join(conf, "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", " ")
    _tell_clients_of_stores(conf, lake)
    return conf


def _prepare_executors(conf: dict[str, str]) -> None:
    """Add the settings by which executors start as quickly as a local JVM, with the daemon of dts-assets.

    Workers find the archive of ``spark.submit.pyFiles`` by themselves. The daemon that they are forked from does not: it starts
    in the folder that executors fetch files into, so the archive's bare name is its place.
    """
    _join(conf, "spark.executor.extraJavaOptions", " ".join(_SHORT_LIVED), " ")
    _join(conf, "spark.executorEnv.PYTHONPATH", ARCHIVE, ":")


def _without_small(conf: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in conf.items() if name not in _OF_SMALL_MACHINES}


def _tell_clients_of_stores(conf: dict[str, str], lake: LakeLocation) -> None:
    """Add the options for clients of stores in the driver and in executors."""
    options = " ".join(checksum_options(lake.properties, variables_of(CHECKSUM_VARIABLES)))
    if options:
        _join(conf, "spark.driver.extraJavaOptions", options, " ")
        _join(conf, "spark.executor.extraJavaOptions", options, " ")


def _of_queries(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a session on a server may have for itself.

    Settings of catalogs may hold secrets, and the server has them already.
    """
    return {
        name: value
        for name, value in conf.items()
        if name.startswith("spark.sql.") and not name.startswith(("spark.sql.catalog.", "spark.sql.extensions"))
    }


def _join(conf: dict[str, str], name: str, value: str, separator: str) -> None:
    conf[name] = f"{value}{separator}{conf[name]}" if conf.get(name) else value


def prepare_process(master: str = "local[2]", conf: Mapping[str, str] | None = None) -> None:
    """Set the environment that Spark reads before its JVM starts, and require a Java and the cluster's master.

    A variable that is set already stays, but for one: ``spark.pyspark.python`` in ``conf`` is the Python of workers, as Spark's
    own rule is, and PySpark itself reads only the variable. For a Spark Connect server nothing is set. Without PYSPARK_PYTHON
    workers take the first ``python3`` of the path, which has none of the packages; without SPARK_LOCAL_IP Spark binds the
    machine's outer interface.

    Raises:
        MissingJavaError: There is no Java, or it is too old.
        UnreachableMasterError: Nobody listens at the master's address; Spark would try for a minute.
        ExecutorPythonError: The Python of workers is to run on this machine, and is not there.
    """
    if is_connect(master):
        require_master(master)
        return
    require_java()
    require_master(master)
    if python := (conf or {}).get("spark.pyspark.python"):
        if runs_here(master) and shutil.which(python) is None:
            raise ExecutorPythonError(python, "there is no such program on this machine")
        set_variables({"PYSPARK_PYTHON": python})
    set_where_unset({"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable})
    if is_on_this_machine(master):
        set_where_unset({"SPARK_LOCAL_IP": "127.0.0.1"})


def open_session(
    lake: LakeLocation, conf: Mapping[str, str] | None = None, *, master: str = "local[2]", name: str = "dts-assets"
) -> SparkSession:
    """Return a session for a script: that of the process, as Spark's ``getOrCreate`` does, or a new one.

    Raises:
        MissingJavaError: There is no Java, or it is too old; Spark is not started then.
        UnreachableMasterError: Nobody listens at the master's address.
    """
    from pyspark.sql import SparkSession  # half a second that readers of this module's settings need not pay

    prepare_process(master, conf)
    settings = spark_conf(lake, conf, master=master)
    start_jvm(settings, master=master)
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return patient(builder.getOrCreate())


def patient(session: SparkSession) -> SparkSession:
    """Return the session, set to ask a silent Spark Connect server again for half a minute only.

    By itself it would ask for ten minutes. A classic session is returned as it is.
    """
    if hasattr(session, "newSession"):
        return session
    from pyspark.sql.connect.client.retries import DefaultPolicy

    connected: Any = session
    connected.client.set_retry_policies([DefaultPolicy(max_retries=_TRIES, max_backoff=_LONGEST_PAUSE)])
    return session
