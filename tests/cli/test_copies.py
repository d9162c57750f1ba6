"""The commands ``copy``, ``resync`` and ``copies``: files become a table of the lake, by the job that the UI has, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from dts_assets.defs.assemble import assemble
from dts_assets.defs.copying import copy_job_name
from dts_assets.flows.copies import Copying, begin, hold
from dts_assets.flows.pauses import paused_by_person
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopiedChunk, CopyKind
from dts_assets.model.tables import TableId
from dts_assets.model.turns import Turn
from dts_assets.settings import load_settings
from dts_emulator.source.server import private_server
from tests.flows.harness import Harness
from tests.shop_example import shop_config, shop_of

OLD = TableId("shopdb", "", "old")


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "shopdb.old.csv").write_text('id,note\n1,first\n2,\\N\n3,"a, b"\n')
    (tmp_path / "files" / "shopdb.not_wanted.csv").write_text("id\n1\n")
    copies = 'bootstrap: {from: {csv: ./files}, at: "1:19711700"}'
    return shop_of(shop_config(tmp_path, "coupons", "old", hours=4, more=copies))


def call(harness: Harness, *arguments: str) -> Result:
    config = harness.pipeline.settings.folder / "pipeline.yaml"
    done = CliRunner().invoke(cli, [*arguments, "--config", str(config)], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def rows(harness: Harness) -> list[tuple[str, str | None]]:
    found = [(row["id"], row["note"]) for row in harness.rows("snapshot", *OLD.path)]
    return sorted(found, key=repr)


@pytest.mark.more
def test_a_table_that_no_message_tells_of_is_copied_taken_over_and_copied_anew(harness: Harness) -> None:
    done = call(harness, "copy", "shop")
    assert done.exit_code == 0, done.output
    assert "copy: shopdb.old: 3 rows" in done.output
    assert "not_wanted" not in done.output
    for number in range(4):
        harness.all(number)
    assert rows(harness) == [("1", "first"), ("2", None), ("3", "a, b")]
    listed = call(harness, "copies", "shop")
    (line,) = [line for line in listed.output.splitlines() if "shopdb.old" in line]
    assert all(word in line for word in ("bootstrap", "copied", "csv files", "1 of 1", "2026-01-05-03:00"))

    assert "copied before" not in call(harness, "copy", "shop", "--table", "shopdb.old").output
    (harness.pipeline.settings.folder / "files" / "shopdb.old.csv").write_text("id,note\n2,second\n")
    paused_by_person(harness.pipeline, [OLD], reason="it is wrong")
    done = call(harness, "resync", "shop", "shopdb.old")
    assert done.exit_code == 0, done.output
    assert [row.table for row in harness.pipeline.ledger.paused_tables()] == []
    assert harness.settle()
    assert rows(harness) == [("2", "second")]


@pytest.mark.more
def test_of_two_commands_at_once_the_second_finds_the_copy_of_the_first(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = list[Result]()

    @contextmanager
    def waiting(work: Copying, table: TableId) -> Iterator[Turn]:
        """Another process has the lease when this one asks for it, and copies the table."""
        if not first:
            monkeypatch.setattr("dts_assets.flows.copying.hold", hold)
            first.append(call(harness, "copy", "shop"))
        with hold(work, table) as turn:
            yield turn

    monkeypatch.setattr("dts_assets.flows.copying.hold", waiting)
    second = call(harness, "copy", "shop")
    assert [(one.exit_code, "by another process" in one.output) for one in (*first, second)] == [(0, False), (0, True)]
    assert [one.kind for one in harness.pipeline.ledger.copied_tables()] == [CopyKind.BOOTSTRAP]


@pytest.mark.more
def test_what_cannot_be_copied_is_a_sentence(harness: Harness) -> None:
    done = call(harness, "resync", "shop", "shopdb.orders")
    assert (done.exit_code, "has no table shopdb.orders" in done.output + done.stderr) == (2, True)
    done = call(harness, "copy", "shop", "--table", "orders")
    assert "write a table as shopdb.orders" in done.output + done.stderr
    (harness.pipeline.settings.folder / "files" / "shopdb.old.csv").write_bytes(b"id,note\n1,\xff\n")
    done = call(harness, "copy", "shop")
    assert "shopdb.old.csv cannot be read" in done.output + done.stderr
    config = harness.pipeline.settings.folder / "pipeline.yaml"
    config.write_text("\n".join(line for line in config.read_text().splitlines() if "bootstrap" not in line))
    done = call(harness, "copy", "shop")
    assert "has no place to copy tables from" in done.stderr


@pytest.mark.more
@pytest.mark.database
def test_another_server_is_refused_and_nothing_comes_from_it(tmp_path: Path) -> None:
    with private_server(server_id=99) as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shopdb")
            cursor.execute("CREATE TABLE shopdb.coupons (id INT PRIMARY KEY)")
            cursor.execute("INSERT INTO shopdb.coupons VALUES (1)")
        url = f"jdbc:mariadb://localhost/?localSocket={server.socket}"
        copies = f'bootstrap: {{from: {{jdbc: {{url: "{url}", user: root}}}}}}'
        harness = shop_of(shop_config(tmp_path, "coupons", hours=4, more=copies))
        empty = call(harness, "copy", "shop")
        assert (empty.exit_code, "no message of the topic is stored yet" in empty.stderr) == (10, True)
        assert "--server-is-right" in empty.stderr
        harness.all(0)
        for command in (["copy", "shop"], ["copy", "shop", "--server-is-right"], ["resync", "shop", "shopdb.coupons"]):
            done = call(harness, *command)
            assert done.exit_code == 10, done.output
            assert "is not the server that the messages of shop come from: " in done.stderr
        assert harness.pipeline.ledger.copied_tables() == []


@pytest.mark.more
def test_another_key_pauses_a_copied_table_until_resync_and_a_removed_one_waits_for_its_copy(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the commands that the reasons of the pauses name."""
    config = harness.pipeline.settings.folder / "pipeline.yaml"
    config.write_text(config.read_text() + '    columns: {"shopdb.old.note": {hash: {key: "${PII_KEY}"}}}\n')

    def opened(key: str) -> Harness:
        monkeypatch.setenv("PII_KEY", key)
        return shop_of(config)

    lake = opened("a key that nobody guesses")
    assert call(lake, "copy", "shop").exit_code == 0
    lake.settle()
    before = rows(lake)
    assert {one: hashed is None for one, hashed in before} == {"1": False, "2": True, "3": False}
    other = opened("another key that nobody guesses")
    other.settle()
    assert rows(other) == before
    (paused,) = other.pipeline.ledger.paused_tables()
    assert "has passed another rule on note" in paused.reason
    assert "dts-assets resync shop shopdb.old" in paused.reason
    done = call(other, "resync", "shop", "shopdb.old")
    assert done.exit_code == 0, done.output
    other.settle()
    assert not other.pipeline.ledger.paused_tables()
    after = rows(other)
    assert [one for one, _ in after] == [one for one, _ in before]
    assert {hashed for _, hashed in before} & {hashed for _, hashed in after} == {None}
    assert call(other, "tables", "remove", "shopdb.old").exit_code == 0
    other.settle()
    assert "stands still" in (shown := call(other, "tables", "add", "shopdb.old")).output + shown.stderr
    (paused,) = other.pipeline.ledger.paused_tables()
    assert "dts-assets copy shop --table shopdb.old" in paused.reason
    assert call(other, "copy", "shop", "--table", "shopdb.old").exit_code == 0
    other.settle()
    assert not other.pipeline.ledger.paused_tables()
    assert rows(other) == after


def test_a_copy_that_is_being_read_is_given_up(harness: Harness) -> None:
    harness.pipeline.check_shape()
    shapes = (ColumnShape("id", "int(11)", True),)
    begin(harness.pipeline, OLD, shapes, CopyKind.BOOTSTRAP, "a test", [CopiedChunk(0, None, None)])
    done = call(harness, "copies", "shop", "--cancel", "shopdb.old")
    assert (done.exit_code, "1 copies were given up" in done.output + done.stderr) == (0, True)
    assert "cancelled" in call(harness, "copies", "shop").output


def test_the_job_is_there_where_a_place_is_named(harness: Harness) -> None:
    config = harness.pipeline.settings.folder / "pipeline.yaml"
    job = assemble(load_settings(config), config).resolve_job_def(copy_job_name("shop"))
    assert isinstance(job, dg.JobDefinition)
