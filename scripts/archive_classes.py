"""An archive of the Java classes that a run loads, which later JVMs map into memory.

Spark then starts in half the time.

Two windows of the example are made in a lake that is thrown away, since the archive holds what was loaded until the JVM ended:
the first one appends to the snapshots, the second one merges. Spark uses the archive where it finds it
(dts_assets/store/session.py); a JVM of another version, or with other jars, starts without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dts_assets.errors import ConfigErrors, DtsAssetsError

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "shop"
END = datetime(2026, 1, 5, 2, tzinfo=UTC)
CONFIGURATION = """\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {{path: {capture}, complete: true}}}}
    partitions: 4
    window: {{every: 1h, start: 2026-01-05T00:00Z, end: {end}}}
    tables: {{include: ["shopdb.*"]}}
"""


def make_windows(folder: Path) -> None:
    """Run all stages of two windows, one after the other, and end the JVM."""
    from pyspark import SparkContext

    from dts_assets.flows.entries import materialize_entries
    from dts_assets.flows.pipeline import open_pipeline
    from dts_assets.flows.raw import materialize_raw
    from dts_assets.flows.tables import materialize_tables
    from dts_assets.model.spans import Span
    from dts_assets.settings import load_settings
    from dts_assets.store.session import open_session

    config = folder / "pipeline.yaml"
    config.write_text(CONFIGURATION.format(capture=EXAMPLE, end=END.isoformat()))
    pipeline = open_pipeline(load_settings(config), "shop")
    try:
        conf = dict(load_settings().spark.conf)
    except ConfigErrors:
        conf = {}  # its mistakes are told when the file is used
    session = open_session(pipeline.lake.location, conf, name="archive-classes")
    windows = tuple(pipeline.grid.until(END))
    span = Span(tuple(pipeline.kafka_partitions), windows)
    materialize_raw(pipeline, span, spark=lambda: session, progress=print)
    materialize_entries(pipeline, span, spark=lambda: session, progress=print)
    for window in windows:
        materialize_tables(pipeline, [window], spark=lambda: session, progress=print)
    gateway: Any = SparkContext._gateway
    jvm: subprocess.Popen[bytes] = gateway.proc
    session.stop()
    jvm.communicate(timeout=300)  # it ends when its input does, and then writes the archive


def main() -> int:
    """Run the command."""
    from dts_assets.store.session import CLASS_ARCHIVE

    CLASS_ARCHIVE.unlink(missing_ok=True)
    CLASS_ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    unfinished = CLASS_ARCHIVE.with_suffix(".part")
    # Read by the JVM of Spark, and not by the one that puts its command line together.
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={unfinished}"
    try:
        with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
            make_windows(Path(folder))
    except DtsAssetsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    unfinished.replace(CLASS_ARCHIVE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
