"""Columns that the source has spelled in several ways: each event is read by the spelling that it has."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.formats import FormatSettings
from dts_assets.model.tables import TableId
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import WireFormat
from tests import dts_messages

ORDERS = TableId("shopdb", "", "orders")
ASKED = (Column("ID", "int", True, ("id", "ID")), Column("Note", "string", False, ("note", "Note")))


def _protobuf(key: str, note: str) -> bytes:
    columns = [(key, "int(11)"), (note, "varchar(20)")]
    rows: list[dts_messages.Row] = [([], [dts_messages.number(1), dts_messages.text(note)])]
    return dts_messages.entry_set([dts_messages.dml(columns, rows)])


def _json(key: str, note: str) -> bytes:
    message = {
        "mysqlType": {key: "int", note: "varchar"}, "id": 7, "es": 1624614713000, "database": "shopdb", "table": "orders",
        "type": "INSERT", "isDdl": False, "sql": "", "data": [{key: "1", note: note}], "old": None, "pkNames": [key],
    }  # fmt: skip
    return json.dumps(message).encode()


FORMATS = [(DtsProtobuf.of(FormatSettings()), _protobuf), (DrsJsonC.of(FormatSettings()), _json)]


@pytest.mark.parametrize(("wire", "encode"), FORMATS, ids=["dts", "drs"])
def test_a_respelled_column_is_read_under_each_of_its_names(
    wire: WireFormat, encode: Callable[[str, str], bytes]
) -> None:
    sets = [encode(*names) for names in (("id", "note"), ("ID", "Note"), ("id", "Note"))]
    entries = wire.entries(pa.array(sets, pa.binary()))
    assert not entries.rejected
    (changes,) = wire.changes(entries.batch, {ORDERS: ASKED}).tables
    assert changes.batch["after"].to_pylist() == [{"ID": 1, "Note": note} for note in ("note", "Note", "Note")]
    assert wire.traits.ignores_case
