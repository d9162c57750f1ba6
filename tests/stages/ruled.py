"""A table with rules, and its changes as a decoder gives them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dts_assets.model.column_rules import ColumnRule, RuleKind, TableRules, table_rules
from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.settings.row_filters import filter_of
from dts_assets.wire.format import TableChanges, ToldKeys

KEY = b"a key that nobody guesses"
COLUMNS = (
    Column("id", "int", is_key=True),
    Column("region", "string", is_key=False),
    Column("amount", "int", is_key=False),
    Column("email", "string", is_key=False),
    Column("card", "string", is_key=False),
    Column("note", "string", is_key=False),
    Column("secret", "string", is_key=False),
)
RULES = {
    "email": ColumnRule(RuleKind.HASH, key=KEY),
    "card": ColumnRule(RuleKind.TOKENIZE, key=KEY, pattern="[0-9]{4,}", keep_last=2),
    "note": ColumnRule(RuleKind.MASK, text="***"),
    "secret": ColumnRule(RuleKind.DROP),
}
FILTER = "region = 'eu' AND (amount >= 10 OR secret IS NULL)"
NAMES = [column.name for column in COLUMNS]
STORED = [name for name in NAMES if name != "secret"]
NULLS = dict.fromkeys(NAMES)
UNFIT = "0xff is no text of "

Row = dict[str, Any]


def rules_of(columns: tuple[Column, ...] = COLUMNS, rows: str | None = FILTER, **more: ColumnRule) -> TableRules:
    found = table_rules(columns, {**RULES, **more}.get, None if rows is None else filter_of(rows))
    assert found is not None
    return found


@dataclass
class Change:
    """A change as it is sent: images may lack columns, and values may not fit (``UNFIT`` and more)."""

    op: str
    before: Row | None
    after: Row | None


def batch_of(changes: list[Change], columns: Iterable[Column]) -> pa.RecordBatch:
    """The changes as a decoder gives them."""
    columns = list(columns)
    kinds = {"int": pa.int32(), "string": pa.string(), "binary": pa.binary()}
    struct = pa.struct([(column.name, kinds[column.type]) for column in columns])
    images: dict[str, list[Row | None]] = {"before": [], "after": []}
    absent: list[list[str]] = []
    invalid: list[list[tuple[str, str]]] = []
    for change in changes:
        absent.append([])
        invalid.append([])
        for side in ("before", "after"):
            image: Row | None = getattr(change, side)
            shown: Row | None = None
            if image is not None:
                shown = {}
                for column in columns:
                    value = image.get(column.name)
                    if column.name not in image:
                        absent[-1].append(f"{side}.{column.name}")
                    elif isinstance(value, str) and value.startswith(UNFIT):
                        invalid[-1].append((f"{side}.{column.name}", value))
                        value = None
                    shown[column.name] = value
            images[side].append(shown)
    return pa.RecordBatch.from_pydict(
        {
            "entry_index": pa.array(np.arange(len(changes)), pa.int32()),
            "row_number": pa.array(np.zeros(len(changes)), pa.int32()),
            "op": pa.array([change.op for change in changes], pa.string()),
            "before": pa.array(images["before"], struct),
            "after": pa.array(images["after"], struct),
            "absent": pa.array(absent, pa.list_(pa.string())),
            "invalid": pa.array(invalid, pa.map_(pa.string(), pa.string())),
        }
    )


def changes_of(batch: pa.RecordBatch, *keys: tuple[str, ...]) -> TableChanges:
    return TableChanges(TableId("shop", "", "orders"), batch, ToldKeys(keys or (("id",),)))
