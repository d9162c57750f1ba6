"""The settings of a real MySQL, and what follows from them; it writes what foreign keys change into its binlog."""

from __future__ import annotations

import pytest

from dts_assets.planning.source_findings import find_findings
from dts_assets.sources.mysql_server import MySqlServer
from dts_assets.sources.source_settings import source_settings
from dts_emulator.source.private_mysql import private_mysql
from tests.flows.verified_source import place_of, run

pytestmark = pytest.mark.mysql


def test_a_mysql_says_what_its_binlog_does_not_tell() -> None:
    options = ("--binlog-row-value-options=PARTIAL_JSON", "--binlog-transaction-compression=ON")
    with private_mysql(extra=options) as server:
        run(
            server,
            [
                "CREATE DATABASE d",
                "CREATE TABLE d.p (id INT PRIMARY KEY, doc JSON)",
                "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE)",
                "CREATE USER asker@localhost IDENTIFIED BY ''",
                "GRANT SELECT ON d.* TO asker@localhost",
            ],
        )
        with MySqlServer(place_of(server)).connected() as asked:
            found = source_settings(asked, lambda table: table.database == "d")
    child = next(one for one in found.tables if one.table.table == "c")
    assert [str(one) for one in child.parents] == ["d.p"]
    sentences = [one.sentence for one in find_findings(found)]
    assert len(sentences) == 2
    assert sentences[0].startswith("binlog_transaction_compression is ON")
    assert "JSON columns of d.p are wrong" in sentences[1]
