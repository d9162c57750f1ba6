"""MariaDB's GTIDs in the vendor's form."""

from __future__ import annotations

from uuid import UUID

import pytest

from dts_assets.model.gtids import GtidSet
from dts_emulator.source.mariadb_gtids import NAMESPACE, Gtid


def test_the_mapping_is_fixed() -> None:
    assert str(Gtid(0, 1, 5)) == "03b4169b-9ef3-5cb1-b1ba-ad0380a42bc7:5"
    assert UUID(Gtid(0, 1, 5).source).version == 5
    assert str(NAMESPACE) == "7d1f2f6e-52a3-5b0e-9c39-0d5c6f1a4b10"


def test_domains_and_servers_have_uuids_of_their_own() -> None:
    assert len({Gtid(0, 1, 1).source, Gtid(1, 1, 1).source, Gtid(0, 2, 1).source, Gtid(1, 0, 1).source}) == 4


def test_a_set_grows_by_the_sets_of_its_transactions() -> None:
    synced = GtidSet()
    for number in (1, 2, 3, 7, 5, 6):
        synced |= Gtid(0, 1, number).as_set()
    assert str(synced) == f"{Gtid(0, 1, 1).source}:1-3:5-7"
    synced |= Gtid(0, 1, 4).as_set()
    assert str(synced) == f"{Gtid(0, 1, 1).source}:1-7"
    assert synced.holds(Gtid(0, 1, 7).source, 7)


def test_a_text_of_the_server_is_its_three_numbers() -> None:
    assert Gtid.parse("0-1-812") == Gtid(0, 1, 812)
    with pytest.raises(ValueError, match="no GTID of MariaDB"):
        Gtid.parse("0-1")
