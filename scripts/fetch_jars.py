"""The start and stop of one Spark session, which puts the Iceberg jars into Ivy's cache.

The Spark settings of the configuration file apply, so that a mirror named there (``spark.jars.ivySettings``) is used here too.
"""

from __future__ import annotations

import sys
import tempfile

from dts_assets.errors import ConfigErrors, DtsAssetsError
from dts_assets.settings import load_settings
from dts_assets.store.catalog import LakeLocation
from dts_assets.store.session import open_session


def main() -> int:
    """Run the command."""
    try:
        conf = dict(load_settings().spark.conf)
    except ConfigErrors:
        conf = {}  # its mistakes are told when the file is used
    try:
        with tempfile.TemporaryDirectory() as folder:
            open_session(LakeLocation(folder), conf, master="local[1]", name="fetch-jars").stop()
    except DtsAssetsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
