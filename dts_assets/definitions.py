"""The entry point of Dagster: the configuration that ``DTS_ASSETS_CONFIG`` names, as definitions."""

from __future__ import annotations

import gc
import sys

from dts_assets.defs.assemble import assemble
from dts_assets.defs.endings import install_endings
from dts_assets.settings import config_file, load_settings

install_endings(sys.argv)
path = config_file()
# Thousands of tables are millions of objects that live as long as the process. While they are made, looking again and again
# for garbage among them takes a third of the time, and finds none.
gc.disable()
try:
    defs = assemble(load_settings(path), path)
finally:
    gc.enable()
gc.freeze()
