"""The Java packages that a session of Spark needs, and the place of those that were fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dts_assets.store.catalog_properties import bundle_of

_ICEBERG = "1.11.0"
ICEBERG_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{_ICEBERG}"
SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.51.0.0"

FETCHED = Path("~/.ivy2.5.2/jars")
"""The folder in which Spark 4.1 puts fetched packages, unless ``spark.jars.ivy`` names another."""

_JARS = ("spark.jars.packages", "spark.jars", "spark.driver.extraClassPath")
_FETCHED_OTHERWISE = frozenset({"spark.jars.ivy", "spark.jars.ivySettings"})
"""The settings by which Spark takes packages from another place, or by another way."""


def packages_of(catalog_type: str, scheme: str, user: Mapping[str, str]) -> tuple[str, ...]:
    """Return the Maven coordinates for a lake, by its catalog and the scheme of its warehouse.

    The package of a store is left out where the settings of ``user`` name it themselves, in any version.
    """
    jars = [ICEBERG_RUNTIME]
    if catalog_type == "sqlite":
        jars.append(SQLITE_JDBC)
    bundle = bundle_of(scheme)
    if bundle is not None and not any(bundle in user.get(one, "") for one in _JARS):
        jars.append(f"org.apache.iceberg:{bundle}:{_ICEBERG}")
    return tuple(jars)


def fetched_jars(packages: str) -> tuple[Path, ...]:
    """Return the files of Maven coordinates (joined by commas) that Spark has fetched before.

    Unless all files are there, none is returned.
    """
    found = tuple(map(_file, packages.split(",")))
    return found if all(path.is_file() for path in found) else ()


def missing_jars(packages: str, conf: Mapping[str, str]) -> tuple[str, ...]:
    """Return those of some Maven coordinates (joined by commas) that Spark would fetch first.

    There is none where ``conf`` says that Spark takes them from elsewhere.
    """
    if conf.keys() & _FETCHED_OTHERWISE:
        return ()
    return tuple(one for one in filter(None, packages.split(",")) if not _file(one).is_file())


def _file(coordinates: str) -> Path:
    return FETCHED.expanduser() / f"{'_'.join(coordinates.split(':')[:2])}-{coordinates.rpartition(':')[2]}.jar"
