"""The statements about an account for one proof, by a server that is made up: its rights, the look at it, and its end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from dts_assets.errors.scratch import ScratchServerError
from dts_assets.flows import scratch_account as module
from dts_assets.flows.scratch_account import scratch_account
from dts_assets.flows.scratch_server import Login, ScratchAddress, ScratchServer, StatementRefused

LEFT, RUNNING = "dts_assets_prove_0123456789ab", "dts_assets_prove_ba9876543210"
OF_PEOPLE = ("dts_assets_prove_reader", "dts_assets_prove_", "dts_assets_prove_0123456789abcd", "root", "0123456789ab")


@dataclass
class MadeUp:
    """A server that notes statements, and answers as it is told; ``refused`` are the first words of those that it refuses."""

    address: ScratchAddress = field(default_factory=lambda: ScratchAddress(user="admin"))
    login: Login = field(default_factory=lambda: Login("of a person"))
    schemata: Sequence[str] = ("information_schema", "A_B", "shop")
    grants: int = 3
    refused: str = "-"
    lost: bool = False
    ran: list[str] = field(default_factory=list)

    def run(self, statement: str) -> int:
        if self.lost:
            raise ScratchServerError(str(self.address), "the connection is lost", "")
        if statement.startswith(self.refused):
            raise StatementRefused(1227)
        self.ran.append(statement)
        return 0

    def all(self, statement: str) -> Sequence[tuple[str, ...]]:
        if "mysql.user" in statement:
            return [(name, "localhost") for name in (*OF_PEOPLE, LEFT, RUNNING)]
        return [("a right",)] * self.grants if statement == "SHOW GRANTS" else [(one,) for one in self.schemata]

    def one(self, statement: str) -> str:
        if "IS_FREE_LOCK" in statement:
            return "0" if RUNNING in statement else "1"
        return "admin@localhost"


Connected = list[tuple[ScratchAddress, Login]]


@pytest.fixture
def server() -> MadeUp:
    return MadeUp()


@pytest.fixture
def connected(server: MadeUp, monkeypatch: pytest.MonkeyPatch) -> Connected:
    """The connections that were made beside the first one; all are to the same server."""
    found: Connected = []

    @contextmanager
    def connect(address: ScratchAddress, login: Login) -> Iterator[MadeUp]:
        found.append((address, login))
        server.lost = False
        yield server

    monkeypatch.setattr(module, "scratch_server", connect)
    return found


def account_on(server: MadeUp, *databases: str) -> Any:
    return scratch_account(cast(ScratchServer, server), databases)


def drops(server: MadeUp) -> list[str]:
    """The names of accounts that were dropped."""
    return [found[1] for one in server.ran if (found := re.match("DROP USER IF EXISTS '([^']*)'", one))]


def test_an_account_has_some_rights_on_its_databases_and_another_password(server: MadeUp, connected: Connected) -> None:
    with account_on(server, "a_b", "shop"):
        ((address, login),) = connected
    name = address.user
    assert re.fullmatch("dts_assets_prove_[0-9a-f]{12}", name)
    assert login.password not in ("", server.login.password)
    assert [one for one in server.ran if one.startswith("GRANT")] == [
        f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX ON {database}.* TO '{name}'@'localhost'"
        for database in (r"`a\_b`", "`shop`")
    ]
    assert drops(server) == [LEFT, name], "that of a proof that was killed, and at the end its own"


@pytest.mark.parametrize(
    ("schemata", "grants", "said"),
    [(("shop", "a_b", "other"), 3, "the database other"), (("shop", "a_b"), 4, "see SHOW GRANTS")],
)
def test_an_account_that_could_do_more_is_refused_and_goes(
    server: MadeUp, connected: Connected, schemata: Sequence[str], grants: int, said: str
) -> None:
    server.schemata, server.grants = schemata, grants
    with pytest.raises(ScratchServerError, match=said), account_on(server, "a_b", "shop"):
        pytest.fail("the proof has begun")
    assert drops(server) == [LEFT, connected[0][0].user]


@pytest.mark.parametrize("refused", ["CREATE USER", "GRANT"])
def test_a_person_who_may_make_no_account_reads_the_rights_and_no_account_stays(
    server: MadeUp, connected: Connected, refused: str
) -> None:
    server.refused = refused
    with (
        pytest.raises(ScratchServerError, match=r"admin may not make an account .* with GRANT OPTION"),
        account_on(server, "a_b", "shop"),
    ):
        pytest.fail("the proof has begun")
    assert connected == []
    assert len(drops(server)) == (2 if refused == "GRANT" else 1)


def test_an_account_goes_over_another_connection_where_the_first_is_lost(server: MadeUp, connected: Connected) -> None:
    def proof() -> None:
        with account_on(server, "a_b", "shop"):
            server.lost = True
            raise KeyError

    with pytest.raises(KeyError):
        proof()
    assert connected[1] == (server.address, server.login)
    assert drops(server) == [LEFT, connected[0][0].user]
