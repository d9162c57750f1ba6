"""Collections of documents as tables: a document by its ``_id``.

A collection has the columns ``_id``, ``_id_type`` and ``document`` in every layer. Both first ones are the key: the string ``5``
and the number 5 are two ids.
"""

from __future__ import annotations

from collections.abc import Iterable

from dts_assets.model.columns import Column, ColumnShape

DOCUMENT_TYPE = "BSON document"
"""The source type of a column with documents; no column of a relational database has it."""

ID, ID_TYPE, DOCUMENT = "_id", "_id_type", "document"
COLLECTION = (
    ColumnShape(ID, "BSON value", is_key=True),
    ColumnShape(ID_TYPE, "BSON type", is_key=True),
    ColumnShape(DOCUMENT, DOCUMENT_TYPE, is_key=False),
)
"""The columns of every collection, as events describe those of tables."""


def lake_column(shape: ColumnShape, lake_type: str) -> Column:
    """Return the column of an event as the lake holds it, with a lake type."""
    return Column(shape.name, lake_type, shape.is_key, holds_documents=shape.original_type == DOCUMENT_TYPE)


def is_collection(columns: Iterable[Column]) -> bool:
    """Return whether a table with these columns is a collection of documents."""
    return any(column.holds_documents for column in columns)
