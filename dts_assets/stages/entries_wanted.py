"""The entries that a tables run decodes, of all entries of its windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from dts_assets.model.key_periods import PartialLists
from dts_assets.model.lineages import LineageRule
from dts_assets.model.message_ids import Load
from dts_assets.stages.redelivered_entries import EntryKeys

CellKey: TypeAlias = tuple[int, datetime]
"""Kafka partition, window start."""


@dataclass(frozen=True, slots=True)
class EntriesWanted:
    """The entries that count, by cell.

    ``rules`` tells lineages where not all is lineage 0, ``redelivered`` has the entries that are left out, ``statements`` the
    offsets of the DDL that counts, ``loads`` the full loads that replace a table. Of cells in ``from_offsets`` only entries at or
    behind that offset are decoded. In cells of ``compared_until`` rows before that offset are given and counted apart, because
    they may stand already. ``partial`` has the lists of columns that lack a part of their table's key.
    """

    rules: Mapping[CellKey, Mapping[str, LineageRule]] = field(default_factory=dict)
    redelivered: Mapping[CellKey, EntryKeys] = field(default_factory=dict)
    statements: Mapping[CellKey, frozenset[int]] = field(default_factory=dict)
    loads: Mapping[CellKey, tuple[Load, ...]] = field(default_factory=dict)
    from_offsets: Mapping[CellKey, int] = field(default_factory=dict)
    compared_until: Mapping[CellKey, int] = field(default_factory=dict)
    partial: Mapping[CellKey, PartialLists] = field(default_factory=dict)
