"""Lists of columns that lack a part of their table's key: told apart from those of another key and of fewer columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from dts_assets.model.columns import ColumnShape
from dts_assets.model.key_periods import list_digest
from dts_assets.model.ledger_rows import TableShapeRow
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.partial_images import find_partial_images

TABLE, OTHER = TableId("shopdb", "", "orders"), TableId("shopdb", "", "lines")
START = datetime(2026, 1, 5, tzinfo=UTC)


def shape(number: int, names: str, key: str = "", table: TableId = TABLE) -> TableShapeRow:
    """A list of columns, a letter each, that was seen at a position in the window of the same number."""
    columns = tuple(ColumnShape(name, "int", name in key) for name in names)
    return TableShapeRow(0, START + timedelta(hours=number), table, columns, ServerPosition(0, number), "7")


def found(*shapes: TableShapeRow, borders: tuple[int, ...] = ()) -> dict[str, tuple[str, ...]]:
    """The lists that lack columns of a key, by their letters."""
    places = {TABLE: [SourcePosition(0, 0, number) for number in borders]}
    lists = {list_digest(one.name for one in row.columns): "".join(c.name for c in row.columns) for row in shapes}
    images = find_partial_images(shapes, places)
    assert {row for row in map(repr, shapes)} >= {repr(row) for row in shapes if images.takes(row)}
    return {lists[one]: lacking for of in images.by_cell.values() for (_, one), lacking in of.items()}


@pytest.mark.parametrize(
    "order", [*permutations([shape(1, "iab", "i"), shape(2, "a"), shape(3, "b"), shape(4, "iabc", "i")])]
)
def test_changed_columns_alone_lack_the_key_in_any_order(order: tuple[TableShapeRow, ...]) -> None:
    assert found(*order) == {"a": ("i",), "b": ("i",)}


def test_a_part_of_a_key_lacks_the_rest() -> None:
    assert found(shape(1, "ijab", "ij"), shape(2, "ia", "i"), shape(3, "j", "j"), shape(4, "ij", "ij")) == {
        "ia": ("j",), "j": ("i",),
    }  # fmt: skip


def test_whole_lists_lack_nothing_whatever_their_key() -> None:
    assert found(shape(1, "iab", "i"), shape(2, "iab"), shape(3, "iab", "a"), shape(4, "iabc", "i")) == {}
    assert found(shape(1, "a"), shape(2, "ab")) == {}, "a table without a key has none to lack"
    assert found(shape(1, "iab", "i"), shape(2, "uab", "u")) == {}, "another column took the place of the key"
    assert found(shape(1, "iab", "i"), shape(2, "a", table=OTHER)) == {}


def test_a_statement_between_them_may_have_taken_the_key_away() -> None:
    shapes = shape(1, "iab", "i"), shape(3, "ab")
    assert found(*shapes) == {"ab": ("i",)}
    assert found(*shapes, borders=(2,)) == {}
    assert found(*shapes, borders=(1,)) == {"ab": ("i",)}, "rows of a statement's position stand behind it"
    assert found(*shapes, borders=(3,)) == {}
    assert found(*shapes, shape(4, "iab", "i"), borders=(2,)) == {"ab": ("i",)}


def test_texts_name_the_cells_that_have_such_lists_alone() -> None:
    images = find_partial_images([shape(1, "iab", "i"), shape(2, "a"), shape(3, "b")], {})
    texts = [images.text(Cell(0, Window(START + timedelta(hours=n), START + timedelta(hours=n + 1)))) for n in range(4)]
    assert (texts[0], texts[1]) == ("", "")
    assert len({texts[2], texts[3], images.digest}) == 3
    assert find_partial_images([shape(1, "iab", "i")], {}).digest == ""
