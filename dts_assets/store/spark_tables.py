"""Iceberg tables outside of the lake's catalog, as frames of Spark.

Spark reads them by a catalog that is a folder: a table there is a copy of the metadata file, which names all files by whole
paths. So a session needs nothing but Iceberg's runtime, whatever the lake's own catalog is.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from dts_assets.store.catalog import LakeLocation
from dts_assets.store.catalog_properties import for_spark, of_file_stores
from dts_assets.store.left_files import require_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FOLDER, _NAMESPACE = "spark", "tables"
_RESOLVING_IO = "org.apache.iceberg.io.ResolvingFileIO"


def spark_frame(session: SparkSession, table: Table, folder: Path, lake: LakeLocation) -> DataFrame:
    """Return the rows of a table whose metadata lie in a local folder, as Spark reads them.

    The session has to reach the folder, and the files of the lake with the keys of its configuration.

    Raises:
        LakeTableError: Files of the table are gone.
    """
    require_files(table)
    warehouse = folder.absolute() / _FOLDER
    catalog = f"moment_{hashlib.sha256(str(warehouse).encode()).hexdigest()[:12]}"
    name = f"t_{hashlib.sha256(table.metadata_location.encode()).hexdigest()[:16]}"
    metadata = warehouse / _NAMESPACE / name / "metadata"
    if not (metadata / "version-hint.text").exists():
        metadata.mkdir(parents=True, exist_ok=True)
        with table.io.new_input(table.metadata_location).open() as file:
            (metadata / "v1.metadata.json").write_bytes(file.read())
        (metadata / "version-hint.text").write_text("1")
    key = f"spark.sql.catalog.{catalog}"
    stores = for_spark(lake.properties, scheme=lake.scheme)
    options = {
        **{one: value for one, value in stores.items() if one in of_file_stores(stores) or one == "client.region"},
        "type": "hadoop",
        "warehouse": f"file://{warehouse}",
        "io-impl": _RESOLVING_IO,
        "cache-enabled": "false",
    }
    session.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    for one, value in options.items():
        session.conf.set(f"{key}.{one}", value)
    return session.table(f"{catalog}.{_NAMESPACE}.{name}")
