"""The entry point of Dagster: the configuration that ``DTS_ASSETS_CONFIG`` names, as definitions."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg


def _load() -> dg.Definitions:
    """Return the definitions, with the repository that Dagster asks of them in every process."""
    from dts_assets.defs.assemble import assemble
    from dts_assets.defs.endings import install_endings
    from dts_assets.settings import config_file, load_settings

    install_endings(sys.argv)
    path = config_file()
    found = assemble(load_settings(path), path)
    found.get_repository_def()  # it is kept
    return found


# Thousands of tables are millions of objects that live as long as the process. While they are made, looking again and again
# for garbage among them takes a third of the time, and finds none. So it is with the modules: Dagster's own are as many objects.
gc.disable()
try:
    defs = _load()
finally:
    gc.enable()
gc.freeze()
