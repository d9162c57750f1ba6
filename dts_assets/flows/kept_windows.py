"""The naming of windows that stay as an earlier version of this package, or other settings, made them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.model.version import CODE_VERSION
from dts_assets.planning.kept_windows import kept_sentence, kept_windows
from dts_assets.store.schemas import RAW_WINDOWS

_NAMED = "dts-assets.named-windows"
"""The property of ``raw_windows`` with the code version and the settings for which such windows were looked for.

Each place where people read has one of its own.
"""


class Place(StrEnum):
    """The places where people read of such windows: what the command prints, and the logs of Dagster's runs."""

    COMMAND = "command"
    LOG = "log"


def name_kept_windows(pipeline: Pipeline, place: Place, say: Callable[[str], None]) -> None:
    """Name the windows that a present run would make otherwise, and that have lost their entries.

    They are named once for each code version and settings. Where that was stopped, they are named again.
    """
    unmakeable, path = pipeline.unmakeable(), pipeline.path("raw_windows")
    if not unmakeable.removed.rows:
        return
    known = known_tables(pipeline)  # read first: it says whether there are sets, which settings depend on
    settings, there = pipeline.shaping_settings(), pipeline.lake.table(path)
    name, value = f"{_NAMED}.{place}", f"{CODE_VERSION} {settings}"
    if there is not None and there.properties.get(name) == value:
        return
    kept = kept_windows(pipeline.ledger.cuts(), unmakeable, settings=settings, code_version=CODE_VERSION)
    counts = pipeline.ledger.window_tables(kept.windows) if kept.windows else ()
    if tables := {row.table for row in counts if row.kept and row.table in known}:
        has_rules = bool(pipeline.settings.columns)
        say(kept_sentence(kept, pipeline.name, tables, code_version=CODE_VERSION, has_rules=has_rules))
    pipeline.lake.remember(path, RAW_WINDOWS, name=name, value=value, again=True)
