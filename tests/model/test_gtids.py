"""Sets of GTIDs obey the laws of sets, and their texts are those of the sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.gtids import GtidSet, greatest_numbers, gtid_source, is_domain, parse_gtid, server_and_number

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4350f323-7565-4e59-8763-4b1b83a0ce0e"

MYSQL = st.sampled_from([A, B, f"{A}:tag", f"{A}:domain_1"])
MARIADB = st.sampled_from(["0", "1", "12"])
Members = set[tuple[str, int]]


def members(sources: st.SearchStrategy[str]) -> st.SearchStrategy[Members]:
    return st.sets(st.tuples(sources, st.integers(1, 20)), max_size=25)


SETS = st.one_of(members(MYSQL), members(MARIADB))
PAIRS = st.one_of(st.tuples(members(MYSQL), members(MYSQL)), st.tuples(members(MARIADB), members(MARIADB)))


def made(of: Members) -> GtidSet:
    return GtidSet.of((source, number, number) for source, number in of)


def listed(of: GtidSet) -> Members:
    return {(source, number) for source, first, last in of.intervals() for number in range(first, last + 1)}


@given(SETS)
def test_a_set_is_the_text_it_writes(held: Members) -> None:
    assert listed(made(held)) == held
    assert GtidSet.parse(str(made(held))) == made(held)
    assert made(held).count == len(held)
    assert bool(made(held)) is bool(held)


@given(PAIRS)
def test_the_laws_of_sets(pair: tuple[Members, Members]) -> None:
    one, other = pair
    assert made(one) | made(other) == made(one | other)
    assert made(one) - made(other) == made(one - other)
    assert made(one).covers(made(other)) is (one >= other)


@given(SETS, st.one_of(MYSQL, MARIADB), st.integers(1, 21))
def test_what_is_in_a_set(held: Members, source: str, number: int) -> None:
    assert made(held).holds(source, number) is ((source, number) in held)
    name = f"{source}-7-{number}" if is_domain(source) else f"{source}:{number}"
    assert parse_gtid(name) == (source, number)


@given(SETS)
def test_holes_are_what_lies_between_and_is_not_there(held: Members) -> None:
    expected = set()
    for source in {source for source, _ in held}:
        numbers = [number for of, number in held if of == source]
        expected |= {(source, number) for number in range(min(numbers), max(numbers))} - held
    assert listed(made(held).holes) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (f"{A.upper()}:1-13", f"{A}:1-13"),
        (f"{A.replace('-', '')}:5:1-4 , {B}:7", f"{A}:1-5,{B}:7"),
        (f"{{{A}}}:1-3:11:47-49", f"{A}:1-3:11:47-49"),
        (f"{A}:1-3:15:Domain_1:1-5:9,{A}:other:2", f"{A}:1-3:15:domain_1:1-5:9:other:2"),
        ("0-1-100,1-2-7", "0:1-100,1:1-7"),
        ("0-1-5,0-2-9", "0:1-9"),
        ("3-1-0", ""),
        ("0:5-9", "0:5-9"),
    ],
)
def test_texts_of_the_sources(text: str, canonical: str) -> None:
    assert str(GtidSet.parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    ["x", A, f"{A}:", f"{A}:0", f"{A}:5-3", f"{A}:tag", f"{A}:1:tag", f"{A}:1-2-3", f"{A}:9tag:1", "0-1", "0:tag:1",
     "u:1-13", f"{A}:1,", f"{A}:{1 << 64}", "0-1-5-7", f"{A}:tag:{'t' * 33}:1"],
)  # fmt: skip
def test_nonsense_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=" "):
        GtidSet.parse(text)


@pytest.mark.parametrize("text", ["", "7", f"{A}:1-3", f"{A}", "0-1", "a:b:3", ":3", f"{A}:tag:x"])
def test_what_is_no_gtid(text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        parse_gtid(text)


def test_one_gtid_of_mariadb_is_one_transaction_and_a_set_all_up_to_it() -> None:
    assert parse_gtid("0-7-100") == ("0", 100)
    assert GtidSet.parse("0-7-100").count == 100


def test_what_names_a_source() -> None:
    assert gtid_source("5-31") == "5"
    assert gtid_source(A.upper()) == A
    assert gtid_source(f"{A}:Tag") == f"{A}:tag"


@pytest.mark.parametrize("combined", ["parse", "or", "minus"])
def test_the_dialects_do_not_mix(combined: str) -> None:
    mysql, mariadb = GtidSet.parse(f"{A}:1-3"), GtidSet.parse("0-1-3")
    with pytest.raises(ValueError, match="do not mix"):
        {
            "parse": lambda: GtidSet.parse(f"{A}:1,0-1-3"),
            "or": lambda: mysql | mariadb,
            "minus": lambda: mysql - mariadb,
        }[combined]()
    assert mysql | GtidSet() == mysql - GtidSet() == mysql


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{A}:7", (A, 7)),
        (f"{A}:tag:7", (f"{A}:tag", 7)),
        (f"{A.upper()}:7", (A.upper(), 7)),  # as it is written: the sets that are parsed have one spelling
        ("0-1-812", ("0-1", 812)),
        (f"{A}:{10**18 - 1}", (A, 10**18 - 1)),
        (f"{A}:{10**18}", None),  # does not fit the numbers of columns
        (f"{A}:", None),
        (":7", None),
        ("7", None),
        ("", None),
        (f"{A}:7\n", None),
        ("x" * 100 + ":7", ("x" * 100, 7)),
        ("x" * 101 + ":7", None),  # with each of many numbers it would be a text of its own
        (f"{A}:٧", None),
    ],
)
def test_a_gtid_is_a_server_and_a_number(text: str, found: tuple[str, int] | None) -> None:
    assert server_and_number(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        (f"{A}:1-13:15", {A: 15}),
        (f"{A}:1-5, {B}:7", {A: 5, B: 7}),
        (f"{A}:1-5,{A}:9", {A: 9}),
        (f"{A}:1-13:15:tag:1-3:7,{B}:other:2", {A: 15, f"{A}:tag": 7, f"{B}:other": 2}),
        (f"{A}:²,{B}:" + "9" * 5000, {}),
        ("0-1-100,0-2-70", {"0-1": 100, "0-2": 70}),
        ("nonsense", {}),
        ("a:b", {}),
        (f"{'x' * 100}:7,{'x' * 101}:7,{'x' * 101}:tag:7", {"x" * 100: 7}),
    ],
)
def test_the_greatest_number_of_every_server_of_a_set(text: str, found: dict[str, int]) -> None:
    assert greatest_numbers(text) == found
