"""Generations, and the staleness of stored rows, from the ledger alone.

A generation is a digest of everything that decides the content: the inputs, the settings that shape it and the version of the
code. A row that is computed again from equal inputs gets an equal generation, so no row made from it becomes stale.

Each stored row names the inputs it was computed from, with their generations. A row is stale when it would read other inputs
now: a head that has arrived since, newer entries, other settings. Staleness is not stored; it is computed at every look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from dts_assets.model.spans import Cell
from dts_assets.model.version import ROWS_VERSION
from dts_assets.model.windows import Window
from dts_assets.planning.open_sets import disagreeing

if TYPE_CHECKING:  # sensors are defined in every process of Dagster, and need no row of the ledger for that
    from dts_assets.model.ledger_rows import IngestWindow, RawWindow

ABSENT = "absent"
"""The generation of an input that does not exist yet."""


def generation(inputs: Iterable[str], *, code_version: str) -> str:
    """Return a digest (16 hex digits) of the inputs, in any order, and the code version."""
    text = "\n".join([code_version, *sorted(inputs)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def input_text(name: str, generation_now: str) -> str:
    """Return the text of an input in a row's ``inputs``: ``format=1f0c2a...``."""
    return f"{name}={generation_now}"


def changed_inputs(recorded: Iterable[str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the recorded inputs that have another generation now, or are gone."""
    parts = (text.rpartition("=") for text in recorded)
    return tuple(name for name, _, before in parts if now.get(name, ABSENT) != before)


RAW_INPUT = "raw:"
"""The beginning of the names under which entries record raw messages."""


def raw_input(cell: Cell) -> str:
    """Return the name under which entries record the raw messages of a cell."""
    return f"{RAW_INPUT}{cell}"


ENTRIES_INPUT = "entries:"
"""The beginning of the names under which tables record entries."""


def entries_input(cell: Cell) -> str:
    """Return the name under which tables record the entries of a cell."""
    return f"{ENTRIES_INPUT}{cell}"


FORMAT_INPUT = "format"
"""The name under which entries record the format and the settings that they were decoded with."""

SETTINGS_INPUT = "settings"
"""The name under which tables record the settings that shape their rows."""

CODE_INPUT = "code"
"""The name under which tables record the newest code version that changed rows."""


FILTERS_INPUT = "filters"
"""The name under which tables record that their filters judged by former names of columns."""

OTHER_NAMES = "other names"
"""The generation of these names, which no input ever has: such tables are stale."""


def tables_inputs(
    window: Window,
    kafka_partitions: Iterable[int],
    entries: Mapping[Cell, IngestWindow],
    *,
    settings: str,
    beside: Mapping[datetime, Iterable[str]] = {},
) -> tuple[str, ...]:
    """Return the inputs that the tables of a window would read now.

    ``beside`` has their inputs beside their own entries by window start: lineages, and earlier windows to compare with.
    """
    cells = [Cell(kafka_partition, window) for kafka_partition in kafka_partitions]
    texts = [input_text(entries_input(cell), entries[cell].generation if cell in entries else ABSENT) for cell in cells]
    code = input_text(CODE_INPUT, ROWS_VERSION)
    return (*texts, *beside.get(window.start, ()), code, input_text(SETTINGS_INPUT, settings))


def entries_sources(raw: Mapping[Cell, RawWindow], *, decoding: str) -> dict[str, str]:
    """Return the generations that entries would read now, by input: of raw messages, and ``decoding`` of the format."""
    return {FORMAT_INPUT: decoding} | {raw_input(cell): row.generation for cell, row in raw.items()}


def stale_entries(
    entries: Mapping[Cell, IngestWindow], raw: Mapping[Cell, RawWindow], *, decoding: str
) -> tuple[Cell, ...]:
    """Return the cells whose entries would be others now.

    They would read other raw messages, read them with another format, or take over other entry sets from the cell before.
    """
    now = entries_sources(raw, decoding=decoding)
    changed = {cell for cell, row in entries.items() if changed_inputs(row.inputs, now)}
    return tuple(sorted(changed | disagreeing(entries)))
