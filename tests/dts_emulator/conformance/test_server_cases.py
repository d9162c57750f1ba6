"""Cases that a MariaDB judges: its rows are what this product ends with, and a suite with them is judged as any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dts_emulator.conformance import __main__ as command
from dts_emulator.conformance.formats import ABILITIES
from dts_emulator.conformance.judge import Outcome, judge
from dts_emulator.conformance.reading import read_suite
from dts_emulator.conformance.server_cases import SCRIPTS
from tests.dts_emulator.conformance.product import consumed, write_result
from tests.tiers import chosen

pytestmark = [pytest.mark.database, pytest.mark.more]

FORMATS = chosen([*ABILITIES], 1)


def test_the_product_ends_with_the_rows_of_the_server(tmp_path: Path) -> None:
    done = CliRunner().invoke(command.main, [str(tmp_path / "suite"), "--with-servers"])
    assert done.exit_code == 0, done.output
    names = {script.name for script in SCRIPTS}
    cases = [one for one in read_suite(tmp_path / "suite") if one.name in names]
    assert len(cases) == len(SCRIPTS) * len(ABILITIES)
    assert {case.described["judged_by"] for case in cases} == {"a MariaDB"}
    mine = [case for case in cases if case.format in FORMATS]
    for number, case in enumerate(mine):
        write_result(case, consumed(case, tmp_path / f"lake {number}"), tmp_path / "results")
    verdicts = judge(mine, tmp_path / "results")
    assert [(one.case.label, one.differences) for one in verdicts if one.outcome is not Outcome.PASS] == []
    assert sum(table["rows"] for case in mine for table in case.described["tables"]) > 100
