"""The one list of the layers of a lake: each table belongs to one of them.

Removal, retention, expiry, sizes, the look for tables that were set back, and the table in docs/rules.md follow from it. A test
fails for a table of a lake that is in no layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Values(StrEnum):
    """The values of rows that a layer holds, in the words of docs/rules.md."""

    SENT = "as they were sent"
    STATEMENTS = "in statements, as they were sent"
    BOUNDS = "bounds of keys, while a copy is read"
    RULED = "under the rules"
    NONE = "none"


class Leaving(StrEnum):
    """The moment at which rows of a layer leave the lake, in the words of docs/rules.md."""

    BY_AGE = "by age"
    WITH_ENTRIES = "with the entries of their window"
    WITH_COPY = "when the copy ends or is given up"
    NEVER = "never by age"


@dataclass(frozen=True, slots=True)
class LakeLayer:
    """A layer: its name is the part of a table's path behind the subscription.

    ``by_table`` says that each source table has a table of its own there, which ``dts-assets tables remove`` drops. The layers
    that are ``made`` of entries hold tables under their names in the lake, copies those under their names at the source.
    """

    name: str
    values: Values = Values.NONE
    leaving: Leaving = Leaving.NEVER
    by_table: bool = False
    made: bool = False

    @property
    def only_present(self) -> bool:
        """True if no version stays for being one of the newest.

        Nobody reads older ones, and they may hold rows that have left.
        """
        return self.leaving in (Leaving.WITH_ENTRIES, Leaving.WITH_COPY)


COPIES = "copies"
"""The layer of copied tables: ``shop.copies.shopdb.orders``."""

LAKE_LAYERS = (
    LakeLayer("raw_envelopes", Values.SENT, Leaving.BY_AGE),
    LakeLayer("entries", Values.SENT, Leaving.BY_AGE),
    LakeLayer("quarantine", Values.SENT),
    LakeLayer("ddl", Values.STATEMENTS),
    LakeLayer(COPIES, Values.RULED, Leaving.WITH_ENTRIES, by_table=True),
    LakeLayer("copied_tables", Values.BOUNDS, Leaving.WITH_COPY),
    LakeLayer("changelog", Values.RULED, by_table=True, made=True),
    LakeLayer("snapshot", Values.RULED, by_table=True, made=True),
    LakeLayer("history", Values.RULED, by_table=True, made=True),
    LakeLayer("sql", Values.RULED, by_table=True, made=True),
    LakeLayer("redeliveries"),
    LakeLayer("lineages"),
    LakeLayer("leases"),
    LakeLayer("paused_tables"),
    LakeLayer("settled_days"),
    LakeLayer("backlog"),
    LakeLayer("removed_rows"),
    LakeLayer("raw_windows"),
    LakeLayer("windows"),
    LakeLayer("window_tables"),
    LakeLayer("cuts"),
    LakeLayer("table_shapes"),
    LakeLayer("comparisons"),
)
"""All layers, those with values of rows first."""

FIXED_LAYERS = tuple(layer for layer in LAKE_LAYERS if not layer.by_table)
"""The layers of one table each, whose shape is fixed."""

TABLE_LAYERS = tuple(layer for layer in LAKE_LAYERS if layer.by_table)
"""The layers with a table for each source table."""

MADE_LAYERS = tuple(layer for layer in TABLE_LAYERS if layer.made)
"""The layers whose tables are made of entries."""


def layer_at(path: Sequence[str]) -> LakeLayer:
    """Return the layer of a table by its path: ``("shop", "changelog", "shopdb", "orders")``.

    Raises:
        LookupError: No layer has such a table.
    """
    found = next((one for one in LAKE_LAYERS if one.name == path[1] and one.by_table is (len(path) > 2)), None)
    if found is None:
        raise LookupError(f"the table {'.'.join(path)} belongs to no layer of dts_assets/model/lake_layers.py")
    return found
