"""The one list of layers: every table that code knows is in it, and documents say what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.defs import layers as shown_layers
from dts_assets.flows.layers import LAYERS
from dts_assets.model.lake_layers import (
    COPIES,
    FIXED_LAYERS,
    LAKE_LAYERS,
    MADE_LAYERS,
    TABLE_LAYERS,
    LakeLayer,
    Values,
    layer_at,
)
from dts_assets.store.schemas import SYSTEM_TABLES

RULES = Path(__file__).parents[2] / "docs" / "rules.md"


def test_all_tables_of_a_lake_are_in_the_list_once() -> None:
    assert {one.name for one in FIXED_LAYERS} == set(SYSTEM_TABLES)
    assert (
        [one.name for one in MADE_LAYERS] == [one.name for one in LAYERS] == [one.name for one in shown_layers.LAYERS]
    )
    assert {one.name for one in TABLE_LAYERS} - {one.name for one in MADE_LAYERS} == {COPIES}
    assert len({one.name for one in LAKE_LAYERS}) == len(LAKE_LAYERS)


def test_a_table_in_no_layer_is_refused() -> None:
    assert layer_at(("shop", "changelog", "shopdb", "orders")).made
    for path in (("shop", "changelog"), ("shop", "entries", "shopdb", "orders"), ("shop", "new", "shopdb", "orders")):
        with pytest.raises(LookupError, match="belongs to no layer"):
            layer_at(path)


def test_the_documents_name_every_layer_with_values() -> None:
    """The table "What still holds the values" of docs/rules.md is that of the list."""
    lines = RULES.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("| `")][-len(rows()) :] == rows()


def rows() -> list[str]:
    return [row(one) for one in LAKE_LAYERS if one.values is not Values.NONE]


def row(layer: LakeLayer) -> str:
    table = f"shop.{layer.name}.shopdb.orders" if layer.by_table else f"shop.{layer.name}"
    removed = "dropped" if layer.by_table else "stay"
    return f"| `{table}` | {layer.values.value} | {layer.leaving.value} | {removed} |"
