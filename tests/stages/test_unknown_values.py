"""Marks of values that are not known: on rows, over operations on keys, and in what is left at last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.columns import Column
from dts_assets.model.frontier import Frontier
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.change_columns import Changes, Counted, RowShape
from dts_assets.stages.followed_columns import FollowedColumns, PastSchema
from dts_assets.stages.key_operations import Operations, joined, operations_of, shared_out, standing
from dts_assets.stages.row_folds import last_operations, living_rows
from dts_assets.stages.row_versions import versions_of
from dts_assets.stages.soft_deletes import rows_with_deleted
from dts_assets.stages.unknown_values import UNKNOWN, UNKNOWN_FIELD, count_unknown, unknown_masks, unknown_names
from dts_assets.stages.value_paths import ValuePath, ValueStep
from dts_assets.wire.ddl.column_definitions import Fill
from dts_assets.wire.ddl.schema_changes import ColumnAdded, ColumnModified
from dts_assets.wire.ddl.table_schemas import SchemaColumn
from tests.stages.merging import changes_of
from tests.stages.worlds import HOUR, START

TABLE = TableId("d", "", "t")
ALL = Counted(Frontier(START + 100 * HOUR, START + 100 * HOUR, None))
WORD, WHOLE = SchemaColumn("n", "varchar(20)", "utf8mb4"), SchemaColumn("n", "int(11)")
TO_WHOLE = ValueStep(ColumnModified(TABLE, WORD, WHOLE), datetime(2026, 1, 5))
UNSAID = ValueStep(ColumnAdded(TABLE, SchemaColumn("n", "int(11)"), None, Fill.UNKNOWN, None), None)
IMAGE = pa.struct([("id", pa.int32()), ("n", pa.string())])
CHANGES = changes_of(IMAGE)
ROWS = pa.schema(
    [
        ("id", pa.int32()), ("n", pa.int32()), ("_event_time", pa.timestamp("us", "UTC")), ("_kafka_partition", pa.int32()),
        ("_kafka_offset", pa.int64()), ("_invalid", pa.map_(pa.string(), pa.string())),
    ]
)  # fmt: skip
SOFT = ROWS.append(pa.field("_deleted_at", pa.timestamp("us", "UTC")))
POSITIONS = pa.struct([("lineage", pa.int32()), ("file", pa.int64()), ("position", pa.int64())])
VERSIONS = pa.schema(
    [
        *list(ROWS)[:2], ("_invalid", ROWS.field("_invalid").type), ("_op", pa.string()),
        ("_valid_from", pa.timestamp("us", "UTC")), ("_valid_to", pa.timestamp("us", "UTC")),
        ("_valid_from_position", POSITIONS), ("_valid_to_position", POSITIONS),
    ]
)  # fmt: skip
STATEMENT = 100
"""The position of the statement."""


def followed(step: ValueStep = TO_WHOLE, *, default: str | None = None) -> FollowedColumns:
    """The columns ``id`` and ``n``, the second of which a statement changes."""
    key, past = ValuePath("id"), ValuePath(None if step is UNSAID else "n", (step,), 1)
    added = ColumnAdded(TABLE, replace(WORD, default="x"), None, Fill.VALUE, default)
    told = None if default is None else ValuePath(None, past.chain, 1, ValueStep(added, None))
    fields = (("id",), ("n",))
    return FollowedColumns(
        (
            PastSchema(None, (key, past), (fields[0], () if step is UNSAID else fields[1]), (None, told)),
            PastSchema(SourcePosition(0, 1, STATEMENT), (key, ValuePath("n")), fields, (None, None)),
        ),
        ("int", "int"),
    )  # fmt: skip


def shape(columns: FollowedColumns | None, schema: pa.Schema = ROWS, **options: Any) -> RowShape:
    keys = (Column("id", "int", True), Column("n", "int", False))
    return RowShape.of(keys, ("id", "n"), schema, unfit=True, followed=columns, **options)


def change(
    position: int, op: str, before: tuple[int, str | None] | None, after: tuple[int, str | None] | None, *absent: str
) -> dict[str, Any]:
    images = {
        name: None if one is None else dict(zip(("id", "n"), one, strict=True))
        for name, one in (("before", before), ("after", after))
    }
    return {
        "op": op, **images, "event_time": START, "source_position": {"lineage": 0, "file": 1, "position": position},
        "row_number": 0, "kafka_partition": 0, "kafka_offset": position, "window_start": START, "absent": [*absent],
        "invalid": [],
    }  # fmt: skip


def batch(*changes: Mapping[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([*changes], CHANGES)


def marked(rows: pa.RecordBatch) -> dict[str, list[int]]:
    """The ids of marked rows by column."""
    ids = rows.column("id").to_pylist()
    return {name: sorted(ids[at] for at in np.flatnonzero(mask)) for name, mask in unknown_masks(rows).items()}


BEFORE = [
    change(10, "insert", None, (1, "7")), change(20, "insert", None, (2, "12.5")), change(30, "insert", None, (3, None)),
    change(40, "insert", None, (4, "1.5")), change(50, "insert", None, (5, "2.5")),
]  # fmt: skip
BEHIND = [change(110, "update", (4, "2"), (4, "3")), change(120, "delete", (5, "3"), None)]
LACKING = [change(110, "update", (4, None), (4, None), "after.n"), change(120, "delete", (5, None), None, "before.n")]

MASKS = st.integers(0, 9).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.dictionaries(
            st.sampled_from(["a", "b c", "é", ""]), st.lists(st.booleans(), min_size=count, max_size=count)
        ),
    )
)


@given(MASKS, st.data())
def test_marks_are_read_back_over_filters_slices_and_joins(given: tuple[int, Any], data: st.DataObject) -> None:
    count, masks = given
    names = unknown_names({name: np.array(mask, np.bool_) for name, mask in masks.items()}, count)
    assert names.type == UNKNOWN_FIELD.type
    rows = pa.RecordBatch.from_arrays([names], schema=pa.schema([UNKNOWN_FIELD]))
    kept = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    start = data.draw(st.integers(0, count))
    expected = {name: [*mask[start:], *(one for one, is_kept in zip(mask, kept, strict=True) if is_kept)]
                for name, mask in masks.items()}  # fmt: skip
    both = pa.Table.from_batches([rows.slice(start), rows.filter(pa.array(kept, pa.bool_()))]).combine_chunks()
    whole = pa.RecordBatch.from_arrays(
        [pa.concat_arrays(both.column(0).chunks) if both.num_rows else names.slice(count)],
        schema=pa.schema([UNKNOWN_FIELD]),
    )
    found = {name: mask.tolist() for name, mask in unknown_masks(whole).items()}
    assert found == {name: mask for name, mask in expected.items() if any(mask)}
    assert count_unknown(whole) == {name: sum(mask) for name, mask in expected.items() if any(mask)}


def test_rows_without_marks_have_none() -> None:
    assert unknown_masks(pa.RecordBatch.from_pydict({"n": pa.array([None, 1])})) == {}


def test_a_value_that_an_event_tells_behind_the_statement_is_known() -> None:
    made = living_rows(operations_of(batch(*BEFORE, *BEHIND), shape(followed()), ALL), shape(followed())).rows
    assert marked(made) == {"n": [2]}
    assert dict(zip(made.column("id").to_pylist(), made.column("n").to_pylist(), strict=True)) == {
        1: 7, 2: None, 3: None, 4: 3
    }  # fmt: skip


def test_a_value_that_an_event_does_not_tell_stays_unknown() -> None:
    found = operations_of(batch(*BEFORE, *LACKING), shape(followed()), ALL, hashed=True)
    assert marked(living_rows(found, shape(followed()), fold_absent=True).rows) == {"n": [2, 4]}


@pytest.mark.parametrize("behind", [BEHIND, LACKING], ids=["told", "lacking"])
def test_deleted_rows_that_stay_are_marked_by_what_they_had(behind: Sequence[Mapping[str, Any]]) -> None:
    soft = shape(followed(), SOFT, added=("_deleted_at",))
    found = operations_of(batch(*BEFORE, *behind), soft, ALL, hashed=True)
    made = rows_with_deleted(found, soft, fold_absent=True).rows
    assert made.num_rows == 5
    assert marked(made) == {"n": [2] if behind is BEHIND else [2, 4, 5]}


def test_marks_go_with_their_operations_to_other_tasks() -> None:
    whole = operations_of(batch(*BEFORE), shape(followed()), ALL, hashed=True)
    behind = operations_of(batch(*BEHIND), shape(followed()), ALL, hashed=True)
    shares = [shared_out(last_operations(part), 3) for part in (whole, behind)]
    found = [
        marked(living_rows(joined([Operations.of_bytes(one.to_bytes()) for one in some]), shape(followed())).rows)
        for some in zip(*shares, strict=True)
    ]
    assert [one for one in found if any(one.values())] == [{"n": [2]}]


def test_rows_that_stand_keep_their_marks_until_an_event_tells() -> None:
    now = shape(None)
    rows = pa.RecordBatch.from_pylist([{"id": number, "n": None} for number in (1, 2, 4)], ROWS)
    rows = rows.append_column(
        UNKNOWN_FIELD, unknown_names({"n": np.array([False, True, True]), "gone": np.ones(3, np.bool_)}, 3)
    )
    stand = standing(rows, now, {}, hashed=True)
    told = replace(now, followed=FollowedColumns(followed().schemas[1:], ("int", "int")))
    for behind, expected in ((BEHIND, [2]), (LACKING, [2, 4])):
        parts = [stand, operations_of(batch(*behind), told, ALL, hashed=True)]
        assert marked(living_rows(joined(parts), now, fold_absent=True).rows) == {"n": expected}


def test_a_key_is_marked_too_and_each_row_of_a_bag() -> None:
    columns = (Column("id", "int", False), Column("n", "int", False))
    bag = RowShape.of(columns, ("id", "n"), ROWS, unfit=False, followed=followed())
    found = operations_of(batch(*BEFORE, BEFORE[1], change(60, "delete", (2, "12.5"), None)), bag, ALL, hashed=True)
    assert marked(living_rows(found, bag).rows) == {"n": [2, 4, 5]}
    keyed = replace(bag, columns=(Column("id", "int", True), Column("n", "int", True)))
    moved = change(60, "update", (4, "1.5"), (6, None), "after.n")  # what the new image lacks of a key is the old one's
    made = living_rows(operations_of(batch(*BEFORE, moved), keyed, ALL, hashed=True), keyed).rows
    assert marked(made) == {"n": [2, 5, 6]}


def test_of_equal_rows_without_a_key_those_that_nobody_knows_stay_marked() -> None:
    columns = (Column("id", "int", False), Column("n", "int", False))
    bag = RowShape.of(columns, ("id", "n"), ROWS, unfit=False)
    rows = pa.RecordBatch.from_pylist([{"id": 2, "n": None}, {"id": 3, "n": None}], ROWS)
    rows = rows.append_column(UNKNOWN_FIELD, unknown_names({"n": np.array([True, False])}, 2))
    told = replace(bag, followed=FollowedColumns(followed().schemas[1:], ("int", "int")))
    inserted = batch(change(110, "insert", None, (2, None)), change(120, "insert", None, (3, None)))
    parts = [standing(rows, bag, {}, hashed=True), operations_of(inserted, told, ALL, hashed=True)]
    made = living_rows(joined(parts), bag).rows
    assert (made.num_rows, marked(made)) == (4, {"n": [2]})


def test_a_default_of_a_type_that_is_not_known_is_marked() -> None:
    strange = ColumnAdded(TABLE, SchemaColumn("n", "frobnicate"), None, Fill.VALUE, "x")
    schema = followed().schemas[1]
    default = replace(schema, since=None, defaults=(None, ValuePath(None, first=ValueStep(strange, None))))
    changes = Changes(
        batch(change(10, "insert", None, (1, None), "after.n")), shape(FollowedColumns((default,), ("int", "string")))
    )
    unknown = changes.unknown("after", 1)
    assert unknown is not None
    assert unknown.tolist() == [True]


def test_columns_that_came_with_values_which_no_statement_says_are_marked_in_rows_alone() -> None:
    changes = Changes(batch(*BEFORE[:1], *BEHIND), shape(followed(UNSAID)))
    found = {image: changes.unknown(image, 1) for image in ("before", "after")}
    assert found["before"] is None
    assert found["after"] is not None
    assert found["after"].tolist() == [True, False, False]
    assert changes.unknown("after", 0) is None


def test_a_default_that_a_later_statement_made_unknown_is_marked() -> None:
    lacking = change(10, "insert", None, (1, None), "after.n")
    for default, expected in (("7.5", [True, False]), ("7", None)):
        found = Changes(batch(lacking, BEFORE[0]), shape(followed(default=default))).unknown("after", 1)
        assert (None if found is None else found.tolist()) == expected


def test_columns_without_steps_cost_no_mask() -> None:
    assert all(
        Changes(batch(BEFORE[0], BEFORE[2]), shape(columns)).unknown("after", 1) is None
        for columns in (None, FollowedColumns(followed().schemas[1:], ("int", "int")))
    )


def test_versions_have_no_marks() -> None:
    history = shape(followed(), VERSIONS, versions=True)
    made = versions_of(operations_of(batch(*BEFORE, *BEHIND), history, ALL, hashed=True), history).rows
    assert UNKNOWN not in made.schema.names
