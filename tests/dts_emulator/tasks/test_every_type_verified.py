"""Every type through each format: a lake's sum is the server's own, but for columns that are named and left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dts_assets.sources.live_database import SourceMoment, moment_of
from dts_emulator.source.events import Transaction
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.dts_emulator.summed_types import check_sums
from tests.dts_emulator.type_gallery import CASES, statements
from tests.dts_emulator.worked_databases import transactions_of, worked_server
from tests.flows.verified_source import place_of
from tests.tiers import chosen

pytestmark = pytest.mark.database


@pytest.fixture(scope="module")
def source() -> Iterator[tuple[list[Transaction], SourceMoment]]:
    with worked_server(statements()) as server, moment_of(place_of(server)) as moment:
        yield transactions_of(server), moment


@pytest.mark.more(after=1)
@pytest.mark.parametrize("name", chosen(FORMATS, 2))
def test_the_sum_of_every_type_is_the_servers(
    source: tuple[list[Transaction], SourceMoment], name: str, tmp_path: Path
) -> None:
    transactions, moment = source
    check_sums(name, transactions, moment, tmp_path, cases=CASES)
