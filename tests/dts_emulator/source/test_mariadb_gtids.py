"""MariaDB's GTIDs in the vendor's form."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dts_emulator.source.mariadb_gtids import NAMESPACE, Gtid, GtidSet


def test_the_mapping_is_fixed() -> None:
    assert str(Gtid(0, 1, 5)) == "03b4169b-9ef3-5cb1-b1ba-ad0380a42bc7:5"
    assert UUID(Gtid(0, 1, 5).source).version == 5
    assert str(NAMESPACE) == "7d1f2f6e-52a3-5b0e-9c39-0d5c6f1a4b10"


def test_domains_and_servers_have_uuids_of_their_own() -> None:
    assert len({Gtid(0, 1, 1).source, Gtid(1, 1, 1).source, Gtid(0, 2, 1).source, Gtid(1, 0, 1).source}) == 4


def test_a_set_grows_by_intervals() -> None:
    synced = GtidSet()
    for number in (1, 2, 3, 7, 5, 6):
        synced.add(Gtid(0, 1, number))
    assert str(synced) == f"{Gtid(0, 1, 1).source}:1-3:5-7"
    synced.add(Gtid(0, 1, 4))
    assert str(synced) == f"{Gtid(0, 1, 1).source}:1-7"
    assert str(GtidSet()) == ""


@given(st.lists(st.integers(1, 40)))
def test_a_set_holds_what_was_put_in_whatever_the_order(numbers: Sequence[int]) -> None:
    synced = GtidSet()
    for number in numbers:
        synced.add(Gtid(0, 1, number))
    found: set[int] = set()
    for interval in str(synced).split(":")[1:]:
        first, _, last = interval.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    assert found == set(numbers)
