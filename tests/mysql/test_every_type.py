"""Every type of a real MySQL through each format: a lake's sum is the server's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dts_assets.sources.live_database import SourceMoment, moment_of
from dts_emulator.source.events import Transaction
from dts_emulator.source.private_mysql import private_mysql
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.dts_emulator.summed_types import check_sums
from tests.dts_emulator.type_gallery import OF_MYSQL, statements
from tests.dts_emulator.worked_databases import transactions_of, worked_server
from tests.flows.verified_source import place_of
from tests.mysql.servers import WITH_MD5

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def source() -> Iterator[tuple[list[Transaction], SourceMoment]]:
    with (
        worked_server((WITH_MD5, *statements(OF_MYSQL)), private_mysql) as server,
        moment_of(place_of(server)) as moment,
    ):
        yield transactions_of(server), moment


@pytest.mark.parametrize("name", FORMATS)
def test_the_sum_of_every_type_is_the_servers(
    source: tuple[list[Transaction], SourceMoment], name: str, tmp_path: Path
) -> None:
    transactions, moment = source
    check_sums(name, transactions, moment, tmp_path, cases=OF_MYSQL, never={"json", "geomcollection"})
