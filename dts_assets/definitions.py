"""The entry point of Dagster: the configuration that ``DTS_ASSETS_CONFIG`` names, as definitions."""

from __future__ import annotations

import sys

from dts_assets.defs.assemble import assemble
from dts_assets.defs.endings import install_endings
from dts_assets.settings import config_file, load_settings

install_endings(sys.argv)
path = config_file()
defs = assemble(load_settings(path), path)
