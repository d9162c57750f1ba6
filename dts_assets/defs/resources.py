"""The resources of assets and sensors: the pipeline of a subscription, and a Spark session at first use.

Resources hold the path of the configuration and nothing else: no connection, no secret, so that the UI may show them. Heavy
modules are imported when they are needed: definitions load in every Dagster process, and pyspark and pyiceberg cost over a
second.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import dagster as dg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.flows.pipeline import Pipeline


class PipelineResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The configuration as a run reads it, opened one subscription at a time."""

    config_path: str

    def pipeline(self, subscription: str) -> Pipeline:
        """Return a subscription's pipeline by the configuration as it is now, with all layers."""
        from dts_assets.defs.layers import LAYERS
        from dts_assets.flows.pipeline import open_pipeline
        from dts_assets.settings import load_settings

        stored = tuple(layer.stored for layer in LAYERS)
        return open_pipeline(load_settings(Path(self.config_path)), subscription, layers=stored)

    def changed_at(self) -> datetime | None:
        """Return when the configuration file was changed last, in UTC; None if it cannot be looked at.

        What environment variables hold is not looked at: nothing tells when they changed.
        """
        with suppress(OSError, ValueError, OverflowError):
            return datetime.fromtimestamp(Path(self.config_path).stat().st_mtime, UTC)
        return None


class SparkResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The Spark session with the lake's catalog, opened once per process when a flow first needs it."""

    # The docstring above stands in the Launchpad. A step that is sure to need the session calls `start` first: the JVM takes
    # seconds to come up, and so does importing the flows. The session is dagster-pyspark's; this resource computes its settings
    # at run time, because they may hold secrets.

    config_path: str

    def start(self) -> None:
        """Begin to open the session in the background; errors are raised by :meth:`session`."""
        # What the session imports is imported here: packages with circular imports must not be imported by two threads at once.
        import dagster_pyspark  # noqa: F401
        import pandas  # noqa: F401
        import pyspark.sql.functions  # noqa: F401

        _ = self._opening

    def session(self) -> SparkSession:
        """Return the session, and open it if it is not open.

        Errors are those of opening, such as MissingJavaError, and those of executors that can run no task.
        """
        return self._opening.result()

    @cached_property
    def _opening(self) -> Future[SparkSession]:
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        opening = pool.submit(self._open)
        pool.shutdown(wait=False)
        return opening

    def _open(self) -> SparkSession:
        from dagster_pyspark import LazyPySparkResource

        from dts_assets.flows.executors import explained_start, require_executors
        from dts_assets.flows.pipeline import lake_location
        from dts_assets.settings import load_settings
        from dts_assets.store.jvm import start_jvm
        from dts_assets.store.session import patient, prepare_process, spark_conf

        settings = load_settings(Path(self.config_path))
        master = settings.spark.address
        prepare_process(master, settings.spark.conf)
        conf = spark_conf(lake_location(settings), dict(settings.spark.conf), master=master)
        with explained_start(master):
            start_jvm(conf, master=master)
            session = patient(cast("SparkSession", LazyPySparkResource(spark_config=conf).spark_session))
        require_executors(session, master, conf)
        return session
