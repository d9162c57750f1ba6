"""The tables of docs/types.md: what lakes of every format were found to hold of the type gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from dts_assets.store.types import arrow_type, iceberg_type
from tests.dts_emulator.type_gallery import CASES, column

PAGE = Path(__file__).parents[2] / "docs" / "types.md"
_LONGEST = 36
_LAKE_TYPES = ("int", "bigint", "float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz")
_NAMES = {arrow_type(iceberg_type(text)): text for text in _LAKE_TYPES}
_GROUPS: Mapping[str, tuple[str, ...]] = {"DTS Avro": ("dts-avro",), "DRS": ("drs-avro", "drs-json", "drs-json-c")}
"""Formats by the name that the page has for them; all others give what ``dts-protobuf`` gives."""


def rows_of_page(found: Mapping[str, pa.Table], texts: pa.Table) -> list[str]:
    """The rows of the page, one for each case: its types, the values that were compared, and the texts that did not fit.

    ``found`` has the snapshots by format, ``texts`` the database's own values.
    """
    rows = []
    for number, case in enumerate(CASES):
        kinds = {name: lake_type(table, column(number)) for name, table in found.items()}
        usual = kinds["dts-protobuf"]
        others = [
            f"{group}: `{kinds[names[0]]}`"
            for group, names in _GROUPS.items()
            if {kinds[one] for one in names} != {usual}
        ]
        assert {kinds[name] for name in found if not any(name in names for names in _GROUPS.values())} == {usual}
        fitting, unfit = _values(found["dts-protobuf"], texts, number)
        cells = (f"`{case.declared}`", "; ".join((f"`{usual}`", *others)), shown(fitting), shown(unfit))
        rows.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return rows


def lake_type(table: pa.Table, name: str) -> str:
    """The lake type of a column, as Spark writes it."""
    kind = table.schema.field(name).type
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _NAMES[kind]


def _values(found: pa.Table, texts: pa.Table, number: int) -> tuple[list[str], list[str]]:
    """The database's texts of values that fit their column in the lake, and of those that do not."""
    by_id = {row["id"]: row[column(number)] for row in texts.select(["id", column(number)]).to_pylist()}
    lists: tuple[list[str], list[str]] = ([], [])
    for row in found.select(["id", column(number)]).sort_by("id").to_pylist():
        text = by_id[str(row["id"])]
        if text is not None:
            lists[row[column(number)] is None].append(text)
    return lists


def shown(texts: Sequence[str]) -> str:
    """Texts as they stand in a cell of the page."""
    shown = [text if len(text) <= _LONGEST else f"{text[:24]}… ({len(text)} characters)" for text in texts]
    return ", ".join(f"`{_printable(text)}`" if text else "empty" for text in dict.fromkeys(shown))


def _printable(text: str) -> str:
    plain = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)
    return plain.replace("|", "\\|").replace(" ", "␠") if plain != plain.strip() else plain.replace("|", "\\|")
