"""Names of columns in the lake: one for each column of the source, unique as Spark compares them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.model.columns import same_name
from dts_assets.planning.column_names import ColumnNames, named_columns, spelled_as_last
from dts_assets.store.columns import RESERVED, SNAPSHOT_SYSTEM, flat_name

ALIKE = (
    "id",
    "Id",
    "ID",
    "iD",
    "ıd",
    "İd",
    "i\u0307d",
    "s",
    "S",
    "ſ",
    "µ",
    "μ",
    "Μ",
    "K",
    "k",
    "\u212a",
    "",
    "%",
    "_op",
    "_OP",
    "a.b",
)

events = st.lists(
    st.lists(st.one_of(st.sampled_from(ALIKE), st.text(max_size=3)), unique=True, max_size=8), min_size=1, max_size=4
)


def _known(columns: dict[str, ColumnNames], found: list[ColumnNames]) -> dict[str, ColumnNames]:
    return {**columns, **{same_name(one.lake): one for one in found}}


@given(events, st.booleans())
@example([["id"], ["ID"], ["id", "ID"]], True)
@example([["İ", "i̇", "i"]], True)
def test_columns_of_one_event_have_names_that_differ_without_case(
    described: list[list[str]], ignores_case: bool
) -> None:
    columns: dict[str, ColumnNames] = {}
    for names in described:
        found = named_columns(columns.values(), names, ignores_case=ignores_case)
        assert [name in one.source for name, one in zip(names, found, strict=True)] == [True] * len(names)
        assert len({same_name(one.lake) for one in found}) == len(names), "no two are one column"
        columns = _known(columns, found)
        assert all(one.lake for one in columns.values())
    assert len({same_name(one.lake) for one in columns.values()}) == len(columns)


@given(events)
def test_an_event_that_comes_again_names_the_same_columns(described: list[list[str]]) -> None:
    columns: dict[str, ColumnNames] = {}
    for names in described:
        columns = _known(columns, named_columns(columns.values(), names, ignores_case=False))
    for names in described:
        assert _known(columns, named_columns(columns.values(), names, ignores_case=False)) == columns


def test_another_spelling_is_one_column_where_case_does_not_count() -> None:
    known = [ColumnNames("id", ("id",)), ColumnNames("note", ("note",))]
    found = named_columns(known, ["ID", "note"], ignores_case=True)
    assert found == [ColumnNames("ID", ("id", "ID")), known[1]]
    assert named_columns(found, ["id"], ignores_case=True) == [found[0]], (
        "an older event says nothing of the last spelling"
    )
    assert spelled_as_last(found[0], {"id": 2, "ID": 1}.__getitem__) == ColumnNames("id", ("ID", "id"))


def test_elsewhere_the_first_by_code_point_keeps_its_name() -> None:
    found = named_columns([], ["id", "n", "Id"], ignores_case=False)
    assert found == [ColumnNames("id__a56145", ("id",)), ColumnNames("n", ("n",)), ColumnNames("Id", ("Id",))]
    later = named_columns(found, ["ID"], ignores_case=False)
    assert later == [ColumnNames("ID__384397", ("ID",))], "a name in the lake never changes its meaning"


def test_names_are_compared_as_spark_does() -> None:
    for alike in (("id", "ID"), ("ı", "i", "I", "İ"), ("ſ", "s"), ("µ", "μ", "Μ"), ("\u212a", "k"), ("ς", "σ", "Σ")):
        assert len(set(map(same_name, alike))) == 1, alike
    for different in (("ß", "ss"), ("é", "e"), ("a", "b"), ("_op", "op")):
        assert len(set(map(same_name, different))) == 2, different


RENAMED = [prefix + name for name in sorted(RESERVED) for prefix in ("", "_source_", "_source__source_", "_SOURCE_")]


@given(*[st.one_of(st.sampled_from(RENAMED), st.sampled_from(RENAMED).map(str.upper), st.text(max_size=4))] * 2)
@example("_event_time", "_source__event_time")
@example("_EVENT_TIME", "_event_time")
def test_flat_names_are_unique_and_none_is_a_name_of_the_project_or_of_iceberg(one: str, other: str) -> None:
    first, second = same_name(flat_name(one)), same_name(flat_name(other))
    assert (first == second) == (same_name(one) == same_name(other))
    assert first not in RESERVED


def test_flat_names_by_example() -> None:
    assert flat_name("note") == "note"
    assert flat_name("_source_note") == "_source_note"
    assert next(flat_name(name) for name, _ in SNAPSHOT_SYSTEM) == "_source__event_time"
    assert flat_name("_source__event_time") == "_source__source__event_time"
    assert flat_name("_File") == "_source__File"
