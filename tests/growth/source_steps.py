"""Steps over messages of sources with a schema, and over documents."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.collections import COLLECTION, lake_column
from dts_assets.model.column_rules import ColumnRule, RuleKind
from dts_assets.model.columns import Column
from dts_assets.model.source_settings import DeclaredTable, SourceSettings
from dts_assets.model.tables import TableId
from dts_assets.planning.source_findings import find_findings
from dts_assets.stages.change_columns import RowShape
from dts_assets.stages.document_fields import with_fields
from dts_assets.stages.document_rows import as_stored, with_images
from dts_assets.stages.document_tokens import tokenized_documents, tokenized_json
from dts_assets.stages.stored_rules import passed_documents
from dts_assets.wire.documents.extended_json import id_of, relaxed, text_of
from dts_assets.wire.documents.many_documents import documents_of
from dts_assets.wire.documents.shell_syntax import document_of
from dts_assets.wire.documents.updates import checked_update, updated
from dts_assets.wire.drs_json import DrsJson
from tests.growth.long_histories import Case

TABLE = TableId("d", "s", "t")
COLUMNS = (Column("id", "int", True), Column("raw", "binary", False), Column("note", "string", False))


def _messages(count: int, *, typed: bool) -> pa.Array:
    """Updates that leave a large value as it was, from a source that tells types or none."""
    types = {"id": "integer", "raw": "bytea", "note": "text"} if typed else None
    fields = {
        "columnType": types, "dbType": "PostgreSQL", "schema": "s", "es": 1, "ts": 1, "database": "d", "table": "t",
        "type": "UPDATE", "old": [{"id": "1", "raw": None}], "pkNames": ["id"],
    }  # fmt: skip
    values = ["00ff", "\\x00", "x"]
    rows = [{"id": str(number), "raw": values[number % 3], "note": "unchanged-toast-datum"} for number in range(count)]
    return pa.array(
        [json.dumps({**fields, "id": number, "data": [row]}).encode() for number, row in enumerate(rows)], pa.binary()
    )


def _read(messages: pa.Array) -> None:
    wire = DrsJson()
    wire.changes(wire.entries(messages).batch, {TABLE: COLUMNS})


def _document(count: int) -> str:
    fields = ", ".join(f'"f{number}": [NumberLong({number}), {number}, {{"$ref": "c"}}]' for number in range(count))
    return f'{{"_id": {{"a": ObjectId("64650cf67dc36a464e76e583")}}, {fields}}}'


def _written(text: str) -> None:
    found = document_of(text)
    id_of({"_id": found})
    text_of(relaxed(found))


def _documents(count: int) -> list[str]:
    """Short documents with values of all kinds, every third of them damaged, and a long document."""
    values = (
        'ISODate("2026-01-05T00:00:00Z")', "5", r'"\\\""', "5.5", 'NumberDecimal("5.50")', '"', "NumberLong(5)",
        'NumberLong("-7")', "(",
    )  # fmt: skip
    return [*(f'{{"_id": {number}, "a": {values[number % len(values)]}}}' for number in range(count)), _document(count)]


def _read_together(texts: list[str]) -> None:
    assert len([*documents_of(texts)]) == len(texts)


def _update(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A document and an update of as many of its fields, some of which go."""
    document = {f"f{number}": [1, {"a": number}] for number in range(count)}
    return document, {
        "$set": {f"f{number}.1.a": number for number in range(0, count, 2)},
        "$unset": {f"f{number}.0": True for number in range(1, count, 2)},
    }


def _updated(given: tuple[dict[str, Any], dict[str, Any]]) -> None:
    checked_update(given[1])
    assert not updated(*given).doubts


def _document_messages(count: int) -> pa.Array:
    """Inserts and updates of a few documents."""
    fields = {"db": "d", "coll": "t", "dbType": "MongoDB", "es": 1, "ts": 1, "clusterTime": "5:1"}
    inserted = {**fields, "op": "INSERT", "recordType": "insert"}
    updated_ones = {**fields, "op": "UPDATE", "recordType": "update"}
    made = [
        {**inserted, "id": number, "value": f'{{"_id": {number % 7}, "a": [{number}]}}'}
        if number % 3 == 0
        else {**updated_ones, "id": number, "value": '{"$set": {"a.0": 5}}', "where": f'{{"_id": {number % 7}}}'}
        for number in range(count)
    ]
    return pa.array([json.dumps(one).encode() for one in made], pa.binary())


COLLECTION_TABLE = TableId("d", "", "t")
COLLECTION_COLUMNS = tuple(lake_column(one, "string") for one in COLLECTION)


def _read_documents(messages: pa.Array) -> None:
    wire = DrsJson()
    (made,) = wire.changes(wire.entries(messages).batch, {COLLECTION_TABLE: COLLECTION_COLUMNS}).tables
    assert with_images(as_stored(made.batch)).num_rows == len(messages)
    rule = ColumnRule(RuleKind.TOKENIZE, key=b"a key that nobody guesses", pattern="^a")
    documents = pc.struct_field(made.batch["after"], "document")
    partial = pc.fill_null(pc.greater(pc.list_value_length(made.batch["absent"]), 0), False)
    assert len(tokenized_documents(documents, rule, are_updates=np.asarray(partial))) == len(messages)
    assert len(tokenized_json(documents, rule)) == len(messages)
    assert len(passed_documents(documents, rule, are_updates=False)) == len(messages)


def _rows_of_documents(count: int) -> tuple[pa.RecordBatch, RowShape]:
    """Rows of a snapshot, and its shape with a field of documents as a column."""
    columns = {name: pa.array([str(number) for number in range(count)]) for name in ("_id", "_id_type")}
    columns["document"] = pa.array([f'{{"_id":{number},"a":{{"b":"x"}}}}' for number in range(count)])
    schema = pa.schema({name: pa.string() for name in (*columns, "b")})
    names = tuple(columns)
    return pa.RecordBatch.from_pydict(columns), RowShape.of(
        COLLECTION_COLUMNS, names, schema, unfit=False, added=("b=a.b",)
    )


def _with_fields(given: tuple[pa.RecordBatch, RowShape]) -> None:
    assert with_fields(*given).column("b").null_count == 0


def _declared(count: int) -> SourceSettings:
    """A server with many tables of every kind that people should know of."""
    tables = [
        DeclaredTable(
            TableId("d", "", f"t{number}"), ("MEMORY", "MRG_MyISAM", "InnoDB")[number % 3], has_key=False, has_json=True,
            is_versioned=True, parents=(TableId("d", "", f"t{number // 2}"),),
        )
        for number in range(count)
    ]  # fmt: skip
    return SourceSettings({"binlog_row_value_options": "PARTIAL_JSON"}, tuple(tables))


SOURCE_STEPS: dict[str, Case] = {
    "tables that a server declares": (
        _declared,
        lambda source: find_findings(source, [replace(one.table, schema="s") for one in source.tables]),
    ),
    "messages with a schema": (lambda count: _messages(count, typed=True), _read),
    "messages with a schema and no types": (lambda count: _messages(count, typed=False), _read),
    "fields of a document": (_document, _written),
    "documents at once": (_documents, _read_together),
    "paths of an update": (_update, _updated),
    "messages about documents": (_document_messages, _read_documents),
    "fields of documents as columns": (_rows_of_documents, _with_fields),
}
