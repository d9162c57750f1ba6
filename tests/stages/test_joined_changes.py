"""Changes of several shards joined: the rows, their hashes and what their events told are those of the parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.tables import TableId
from dts_assets.stages.joined_changes import joined_by_table
from dts_assets.stages.row_hash import row_hashes
from dts_assets.wire.format import TableChanges, ToldKeys

ORDERS, OTHERS = TableId("shop", "", "orders"), TableId("shop", "", "others")
IMAGE = pa.struct([("id", pa.int32()), ("a.b", pa.string())])
KEYS = [(), ("id",), ("a.b", "id")]


def changes(table: TableId, entries: list[int], kinds: str, keys: list[tuple[str, ...]]) -> TableChanges:
    """Inserts, and deletes for odd entries; values of ``a.b`` were text, or in some rows numbers at the source."""
    count = len(entries)
    images = {}
    own: dict[str, tuple[pa.Array, ...]] = {}
    for side, odd in (("before", 1), ("after", 0)):
        there = np.array([entry % 2 == odd for entry in entries], np.bool_)
        texts = pa.array(
            [str(entry) if shown else None for entry, shown in zip(entries, there, strict=True)], pa.string()
        )
        ids = pa.array(entries, pa.int32())
        images[side] = pa.StructArray.from_arrays([ids, texts], fields=list(IMAGE), mask=pa.array(~there))
        if kinds == "mixed":
            number = pa.array([shown and entry % 3 == 0 for entry, shown in zip(entries, there, strict=True)])
            own[f"{side}.a.b"] = (
                pc.if_else(number, ids, pa.scalar(None, pa.int32())), pc.if_else(number, pa.scalar(None, pa.string()), texts),
            )  # fmt: skip
        elif kinds == "numbers":
            own[f"{side}.a.b"] = (pc.if_else(pa.array(there), ids, pa.scalar(None, pa.int32())),)
    batch = pa.RecordBatch.from_pydict(
        {
            "entry_index": pa.array(entries, pa.int32()),
            "row_number": pa.array([0] * count, pa.int32()),
            "op": pa.array(["delete" if entry % 2 else "insert" for entry in entries]),
            **images,
            "absent": pa.array([[]] * count, pa.list_(pa.string())),
            "invalid": pa.array([[]] * count, pa.map_(pa.string(), pa.string())),
        }
    )
    told = ToldKeys(tuple(keys), None if len(keys) == 1 else np.arange(count) % len(keys))
    return TableChanges(table, batch, told, told, told, own)


PARTS = st.lists(
    st.tuples(
        st.sampled_from([ORDERS, ORDERS, OTHERS]),
        st.sets(st.integers(0, 30), min_size=1, max_size=6).map(sorted),
        st.sampled_from(["texts", "numbers", "mixed"]),
        st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True),
    ),
    max_size=5,
).map(lambda some: [changes(*one) for one in some])


def told_of(one: TableChanges) -> list[tuple[str, ...]]:
    numbers = np.zeros(one.batch.num_rows, np.int64) if one.keys.numbers is None else one.keys.numbers
    return [one.keys.distinct[number] for number in numbers.tolist()]


def facts(one: TableChanges) -> list[tuple[object, ...]]:
    hashes = row_hashes(
        one.batch.select(["op", "before", "after"]).append_column("absent", one.batch["absent"]), one.own
    )
    rows = one.batch.to_pylist()
    return [
        (row["entry_index"], repr(row), key, made)
        for row, key, made in zip(rows, told_of(one), hashes.tolist(), strict=True)
    ]


@given(PARTS)
def test_joined_changes_are_those_of_the_parts_in_the_order_of_entries(parts: list[TableChanges]) -> None:
    found = {one.table: one for one in joined_by_table(parts)}
    assert found.keys() == {one.table for one in parts}
    for table, one in found.items():
        expected = [fact for part in parts if part.table == table for fact in facts(part)]
        assert facts(one) == sorted(expected, key=lambda fact: fact[0])  # type: ignore[arg-type, return-value]


def test_changes_that_told_no_key_leave_all_untold() -> None:
    one, other = (changes(ORDERS, [number], "texts", [("id",)]) for number in (1, 2))
    silent = TableChanges(ORDERS, other.batch)
    (found,) = joined_by_table([one, silent])
    assert (found.keys.distinct, found.keys.numbers) == ((), None)
