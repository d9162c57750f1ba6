"""The jars of a Kafka broker, or of the ``rest`` catalog, the S3 ``store`` or ``flink``, fetched once.

The Ivy that comes with Spark fetches them, so that nothing else has to be installed; the Spark settings of the configuration file
that name a mirror (``spark.jars.ivySettings``) or another cache (``spark.jars.ivy``) apply here too. Nothing is done if all jars
are there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from dts_assets.errors import ConfigErrors
from dts_assets.settings import load_settings
from dts_emulator.errors import EmulatorError
from dts_emulator.kafka import broker_files
from dts_emulator.kafka.broker_files import java_program
from dts_emulator.machine import flink, rest_lake, stores

_CACHE = "~/.ivy2.5.2"
"""The cache of Ivy in Spark 4.1."""

_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="dts-assets" module="jars"/>
<configurations><conf name="default"/></configurations>
<dependencies>{dependencies}</dependencies></ivy-module>"""
_DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" conf="default->{}">{}</dependency>'
_ARTIFACT = '<artifact name="{}" type="jar" ext="jar"{}/>'

_WHOLE = ("iceberg-open-api", "iceberg-aws-bundle", "hadoop-client-api", "hadoop-client-runtime", "sqlite-jdbc")
"""The parts that bring all they need, or more than that: nothing is fetched beside them."""


_PARTS: Mapping[str, tuple[Iterable[str], Path]] = {
    "": (broker_files.COORDINATES, broker_files.JARS),
    "rest": (rest_lake.COORDINATES, rest_lake.JARS),
    "store": (stores.COORDINATES, stores.JARS),
    "flink": (flink.COORDINATES, flink.JARS),
}
"""The parts and their folder, by the argument of the command."""


def dependencies(coordinates: Iterable[str]) -> str:
    """Return coordinates as Ivy wants them, the classifiers of a part together."""
    parts: dict[tuple[str, str, str], list[str]] = {}
    for coordinate in coordinates:
        group, name, version, *classifier = coordinate.split(":")
        parts.setdefault((group, name, version), []).append(*classifier or [""])
    return "".join(
        _DEPENDENCY.format(
            group, name, version, "master" if name in _WHOLE else "runtime,master",
            "".join(_ARTIFACT.format(name, f' m:classifier="{one}"' if one else "") for one in some),
        )
        for (group, name, version), some in parts.items()
    )  # fmt: skip


def fetch(conf: Mapping[str, str], coordinates: Iterable[str], jars: Path) -> int:
    """Run Ivy with some Spark settings, ``conf``, and return its exit code."""
    if jars.is_dir():
        return 0
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        sys.stderr.write("pyspark is not installed\n")
        return 1
    (ivy,) = (Path(spark.origin).parent / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder:
        module = Path(folder) / "ivy.xml"
        module.write_text(_MODULE.format(dependencies=dependencies(coordinates)))
        command = [
            java_program(), "-jar", str(ivy), "-ivy", str(module), "-confs", "default",
            "-cache", str(Path(conf.get("spark.jars.ivy", _CACHE)).expanduser() / "cache"),
            *(("-settings", conf["spark.jars.ivySettings"]) if "spark.jars.ivySettings" in conf else ()),
            "-retrieve", f"{folder}/jars/[organisation]_[artifact]-[revision](-[classifier]).[ext]",
        ]  # fmt: skip
        code = subprocess.run(command, check=False).returncode
        if code == 0:
            _put(Path(folder) / "jars", jars)
        return code


def _put(fetched: Path, jars: Path) -> None:
    """Copy the jars into the environment, all or none."""
    unfinished = jars.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(fetched, unfinished)
    unfinished.replace(jars)


def main() -> int:
    """Run the command."""
    try:
        conf = dict(load_settings().spark.conf)
    except ConfigErrors:
        conf = {}  # its mistakes are told when the file is used
    try:
        coordinates, jars = _PARTS[" ".join(sys.argv[1:])]
        return fetch(conf, coordinates, jars)
    except EmulatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
