"""The account of a proof in a real MySQL, and what a source's statements come to there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dts_assets.flows.scratch_account import scratch_account
from dts_assets.flows.scratch_server import Login, ScratchAddress, ScratchServer, StatementRefused, scratch_server
from dts_assets.wire.ddl.chosen_statements import Choice, chosen_statements
from dts_emulator.source.private_mysql import private_mysql
from tests.wire.statements_of_others import BEYOND

pytestmark = pytest.mark.mysql

OF_ALL_KINDS = (
    "CREATE TABLE q (id int unsigned auto_increment primary key, a varchar(9) binary, b char(3) charset latin1 collate latin1_bin"
    " default 'x', c enum('a','b\\\\'), d set('q'), g int as (id + 1) stored, t timestamp(3) default now(3) on update now(3),"
    " j json default (json_array()), x blob default (X'4a'), i bit(3) default b'101', y year, z decimal(9,2) zerofill,"
    " p point not null srid 4326, e text default ('it''s'), f date default '2020-01-01', v int invisible, unique key (a),"
    " check (id > 0)) collate utf8mb4_0900_ai_ci",
    "ALTER TABLE q ADD n int, DROP COLUMN d, RENAME COLUMN y TO yy, ALTER b SET DEFAULT 'q', CONVERT TO CHARACTER SET utf8mb4"
    " COLLATE utf8mb4_bin, DROP PRIMARY KEY, ADD k INT AUTO_INCREMENT PRIMARY KEY FIRST",
    "CREATE TABLE copied LIKE q",
    "RENAME TABLE copied TO z, q TO copied",
    "ALTER DATABASE shop COLLATE utf8mb4_bin",
)


@pytest.fixture(scope="module")
def admin() -> Iterator[ScratchServer]:
    with private_mysql(extra=("--skip-log-bin",)) as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE other")
            cursor.execute("CREATE TABLE other.t (a INT)")
        with scratch_server(ScratchAddress(socket=str(server.socket)), Login()) as opened:
            yield opened


def test_an_account_has_rights_on_its_own_databases_alone_and_goes(admin: ScratchServer) -> None:
    with scratch_account(admin, ["a_b", "shop"]) as own:
        own.run("CREATE DATABASE a_b")
        own.run("DROP DATABASE a_b")
        for statement in ("CREATE DATABASE axb", "SELECT * FROM other.t", "SELECT * FROM mysql.user"):
            with pytest.raises(StatementRefused):
                own.run(statement)
    assert not [user for (user, _) in admin.all("SELECT user, host FROM mysql.user") if user.startswith("dts_assets")]


def test_statements_that_are_written_anew_are_taken(admin: ScratchServer) -> None:
    choice = Choice(lambda table: True, frozenset({"shop"}), anew=True)
    with scratch_account(admin, ["shop"]) as own:
        own.run("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'")
        for sql in BEYOND:
            own.run("CREATE DATABASE shop")
            for text in chosen_statements(sql, "shop", choice).texts:
                if text.startswith("CREATE TABLE") or "DROP" in text:
                    own.run(text)
            own.run("DROP DATABASE shop")
        own.run("CREATE DATABASE shop")
        for sql in OF_ALL_KINDS:
            (text,) = chosen_statements(sql, "shop", choice).texts
            own.run(text)
        assert {name for (name,) in own.all("SHOW TABLES IN shop")} == {"copied", "z"}
    assert admin.all("SHOW TABLES IN other") == [("t",)]
