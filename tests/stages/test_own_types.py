"""Values of columns that became another type: read by their own event's type, held as text, and hashed as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.model.columns import Column, joined_type, mysql_type, reads_alike
from dts_assets.model.tables import TableId
from dts_assets.planning.column_types import column_types
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.stages.row_hash import row_hashes
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import TableChanges
from tests.dts_messages import NULL, dml, number, raw, text
from tests.tiers import examples
from tests.wire.made import batch

ORDERS = TableId("shopdb", "", "orders")
KEY = ("id", "int(11)")

_SECONDS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda value: value.replace(microsecond=0))

SENT: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], pb.Data], Callable[[Any], str | bytes]]] = {
    "int(11)": (st.integers(-(1 << 31), (1 << 31) - 1), lambda value: number(str(value), pb.INT32), str),
    "bigint(20)": (st.integers(-(1 << 63), (1 << 63) - 1), lambda value: number(str(value), pb.INT64), str),
    "bigint(20) unsigned": (st.integers(0, (1 << 64) - 1), lambda value: number(str(value), pb.UINT64), str),
    "decimal(9,8)": (
        st.decimals(-9, 9, places=8), lambda value: number(f"{value:f}", pb.DECIMAL), lambda value: f"{value:.8f}",
    ),
    "decimal(12,8)": (
        st.decimals(-9000, 9000, places=8), lambda value: number(f"{value:f}", pb.DECIMAL), lambda value: f"{value:.8f}",
    ),
    "date": (
        st.dates(date(1, 1, 1)), lambda value: text(value.isoformat()), lambda value: value.isoformat(),
    ),
    "datetime": (
        _SECONDS, lambda value: text(value.isoformat(sep=" ")), lambda value: value.isoformat(sep=" "),
    ),
    "timestamp": (
        _SECONDS, lambda value: text(f"{value.isoformat(sep=' ')} +00:00"), lambda value: f"{value.isoformat(sep=' ')}+00:00",
    ),
    "varchar(80)": (st.text(st.characters(exclude_categories=["Cs"])), text, lambda value: value),
    "blob": (st.binary(), raw, lambda value: value),
}  # fmt: skip
"""By source type: values, how they are sent, and the text or bytes that stand for them where a column has several types."""


def decoded(columns: Sequence[Column], kinds: Sequence[str], values: Sequence[Any]) -> TableChanges:
    """The changes of rows of the given types, each with an image before that has the value, too."""
    made = []
    for place, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        data = NULL if value is None else SENT[kind][1](value)
        made.append(dml([KEY, ("v", kind)], [([number(str(place)), data], [number(str(place)), data])]))
    rows = batch(*made)
    (found,) = DtsProtobuf("ptars").changes(rows, {ORDERS: tuple(columns)}).tables
    return found


def columns_of(kinds: Sequence[str]) -> tuple[Column, ...]:
    lake = {kind: str(mysql_type(kind)) for kind in kinds}
    types = column_types(lake[kinds[0]], lake)
    return Column("id", "int", True), Column("v", types.type, False, own_types=types.own)


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[str, Any]]:
    kinds = draw(st.lists(st.sampled_from(sorted(SENT)), min_size=1, max_size=8))
    return [(kind, draw(st.none() | SENT[kind][0])) for kind in kinds]


@examples(60)
@given(life=lives())
@example(life=[("decimal(9,8)", Decimal("0E-8")), ("date", date(1, 1, 1)), ("varchar(80)", "")])
@example(life=[("blob", b"\xff"), ("varchar(80)", "\U0001f375"), ("timestamp", datetime(1970, 1, 1))])
def test_every_value_is_held_exactly_and_hashed_as_it_was(life: list[tuple[str, Any]]) -> None:
    kinds, values = [kind for kind, _ in life], [value for _, value in life]
    columns = columns_of(kinds)
    found = decoded(columns, kinds, values)
    rows = found.batch.to_pylist()
    kind = columns[1].type
    for (own, value), row in zip(life, rows, strict=True):
        assert row["before"] == row["after"], "both images were sent alike"
        held = row["after"]["v"]
        if value is None:
            assert held is None
        elif kind in ("string", "binary"):
            shown = SENT[own][2](value)
            assert held == (shown.encode() if kind == "binary" and isinstance(shown, str) else shown)
        else:
            assert held == (value.replace(tzinfo=UTC) if own == "timestamp" else value)
        assert not row["invalid"]
    hashes = row_hashes(found.batch, found.own)
    for place, (own, value) in enumerate(life):
        alone = decoded(columns_of([own]), [own], [value]).batch
        same = alone.set_column(0, "entry_index", found.batch["entry_index"].slice(place, 1))
        numbered = [
            {
                **same.to_pylist()[0],
                **{side: {**same.to_pylist()[0][side], "id": place} for side in ("before", "after")},
            }
        ]
        assert row_hashes(pa.RecordBatch.from_pylist(numbered, same.schema))[0] == hashes[place]


def test_an_image_that_was_not_sent_has_no_value() -> None:
    first = dml([KEY, ("v", "int(11)")], [([], [number("1"), number("7")])])
    second = dml([KEY, ("v", "varchar(80)")], [([number("1"), text("seven")], [])], operation=pb.DELETE)
    (found,) = (
        DtsProtobuf("ptars").changes(batch(first, second), {ORDERS: columns_of(["int(11)", "varchar(80)"])}).tables
    )
    assert [row["after"] for row in found.batch.to_pylist()] == [{"id": 1, "v": "7"}, None]
    assert [row["before"] for row in found.batch.to_pylist()] == [None, {"id": 1, "v": "seven"}]


def test_a_value_that_does_not_fit_its_own_type_is_named_although_the_lake_has_text() -> None:
    first = dml([KEY, ("v", "int(11)")], [([], [number("1"), number("99999999999")])])
    (found,) = DtsProtobuf("ptars").changes(batch(first), {ORDERS: columns_of(["int(11)", "varchar(80)"])}).tables
    (row,) = found.batch.to_pylist()
    assert (row["after"]["v"], row["invalid"]) == (None, [("after.v", "99999999999")])


_KINDS = (
    "int", "bigint", "float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", "decimal(10,2)",
    "decimal(12,2)", "decimal(20,0)",
)  # fmt: skip


def test_the_joined_type_does_not_depend_on_the_order() -> None:
    for some in ((one, two, three) for one in _KINDS for two in _KINDS for three in _KINDS):
        assert len({reduce(joined_type, order) for order in permutations(some)}) == 1, some
        joined = reduce(joined_type, some)
        assert joined_type(joined, some[0]) == joined


@pytest.mark.parametrize("kind", _KINDS)
def test_stored_values_get_the_texts_that_new_changes_have(kind: str) -> None:
    """A file of ``kind`` that is converted holds what the decoder makes of the values, directly or by way of a wider type."""
    values: dict[str, list[Any]] = {
        "int": [0, -5], "bigint": [1 << 40], "float": [0.1, -2.5, 16777216.0], "double": [0.1, 1e300, -0.0],
        "boolean": [True, False],
        "string": ["", "é"], "binary": [b"\xff"], "date": [date(21, 5, 17)],
        "timestamp": [datetime(2026, 1, 5, 10, 0, 0, 120000, UTC), datetime(1, 1, 1, tzinfo=UTC)],
        "timestamp_ntz": [datetime(2026, 1, 5, 10), datetime(9999, 12, 31) + timedelta(microseconds=1)],
        "decimal(10,2)": [Decimal("0.01")], "decimal(12,2)": [Decimal("-9999999999.99")], "decimal(20,0)": [Decimal(7)],
    }  # fmt: skip
    some = pa.array([*values[kind], None], arrow_type(kind))
    for wide in (one for one in _KINDS if joined_type(kind, one) == one):
        direct = held_as(some, arrow_type(wide))
        assert direct.null_count == 1
        for last in (one for one in _KINDS if joined_type(wide, one) == one):
            assert held_as(direct, arrow_type(last)).equals(held_as(some, arrow_type(last))), (kind, wide, last)
        is_promoted = (
            kind != "float" and wide not in ("string", "binary") and wide[:7] in (kind[:7], "bigint", "double")
        )
        assert reads_alike(kind, wide) == (kind == wide or is_promoted), (kind, wide)


def test_texts_of_values_are_those_of_the_documents() -> None:
    def shown(value: Any, kind: str) -> Any:
        return held_as(pa.array([value], arrow_type(kind)), pa.string())[0].as_py()

    assert shown(np.float32(0.1), "float") == "0.10000000149011612"
    assert shown(1e20, "double") == "1e+20"
    assert shown(True, "boolean") == "1"
    assert shown(Decimal("-0.00000012"), "decimal(20,8)") == "-0.00000012"
    assert shown(datetime(2026, 1, 5, 10, 0, 0, 500000), "timestamp_ntz") == "2026-01-05 10:00:00.500000"
    assert shown(datetime(2026, 1, 5, 10, tzinfo=UTC), "timestamp") == "2026-01-05 10:00:00+00:00"
    assert held_as(pa.array(["茶"]), pa.binary())[0].as_py() == "茶".encode()
