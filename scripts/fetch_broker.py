"""The jars of a Kafka broker, fetched into the environment once, for tests and demonstrations.

The Ivy that comes with Spark fetches them, so that nothing else has to be installed; the Spark settings of the configuration file
that name a mirror (``spark.jars.ivySettings``) or another cache (``spark.jars.ivy``) apply here too. Nothing is done if all jars
are there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from dts_assets.errors import ConfigErrors
from dts_assets.settings import load_settings
from dts_emulator.errors import EmulatorError
from dts_emulator.kafka.broker_files import COORDINATES, JARS, java_program

_CACHE = "~/.ivy2.5.2"
"""The cache of Ivy in Spark 4.1."""

_MODULE = """<ivy-module version="2.0"><info organisation="dts-assets" module="broker"/>
<configurations><conf name="default"/></configurations>
<dependencies>{dependencies}</dependencies></ivy-module>"""
_DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" conf="default->runtime,master"/>'


def fetch(conf: Mapping[str, str]) -> int:
    """Run Ivy with some Spark settings, ``conf``, and return its exit code."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        sys.stderr.write("pyspark is not installed\n")
        return 1
    (ivy,) = (Path(spark.origin).parent / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        module = Path(folder) / "ivy.xml"
        dependencies = "".join(_DEPENDENCY.format(*coordinate.split(":")) for coordinate in COORDINATES)
        module.write_text(_MODULE.format(dependencies=dependencies))
        command = [
            java_program(), "-jar", str(ivy), "-ivy", str(module), "-confs", "default",
            "-cache", str(Path(conf.get("spark.jars.ivy", _CACHE)).expanduser() / "cache"),
            *(("-settings", conf["spark.jars.ivySettings"]) if "spark.jars.ivySettings" in conf else ()),
            "-retrieve", f"{folder}/jars/[organisation]_[artifact]-[revision].[ext]",
        ]  # fmt: skip
        code = subprocess.run(command, check=False).returncode
        if code == 0:
            _put(Path(folder) / "jars")
        return code


def _put(fetched: Path) -> None:
    """Copy the jars into the environment, all or none."""
    unfinished = JARS.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(fetched, unfinished)
    shutil.rmtree(JARS, ignore_errors=True)
    unfinished.replace(JARS)


def main() -> int:
    """Run the command."""
    if JARS.is_dir():
        return 0
    try:
        conf = dict(load_settings().spark.conf)
    except ConfigErrors:
        conf = {}  # its mistakes are told when the file is used
    try:
        return fetch(conf)
    except EmulatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
