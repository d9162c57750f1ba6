"""Contents at moments of the past: each is, byte by byte, what was dumped from the server when it was there."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from dts_assets.model.positions import file_number
from dts_emulator.errors import NoSuchMoment, ReplayFailed
from dts_emulator.judge.dump import dump_database
from dts_emulator.judge.moments import Moment, content_at, forward_replay, moment_of_gtids, moment_of_position
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.source.server import Server, private_server

pytestmark = pytest.mark.database

STEPS = (
    (
        "CREATE DATABASE d DEFAULT CHARACTER SET latin1",
        "CREATE USER reader",
        "CREATE TABLE d.t (id INT PRIMARY KEY, word VARCHAR(20), made TIMESTAMP(6) NULL, kind ENUM('süß', 'it''s'))",
        "INSERT INTO d.t SELECT seq, CONCAT('ä', seq), NOW(6), 'süß' FROM d.seq_1_to_20",
    ),
    (
        "SET SESSION server_id = 7",
        "UPDATE d.t SET id = id + 100 WHERE id > 10 ORDER BY id DESC",
        "SET SESSION server_id = 1",
        # Rows that are there get the moment of the statement, so the replay has to set the clock.
        "ALTER TABLE d.t ADD COLUMN added DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6), ADD COLUMN n DOUBLE DEFAULT 0.1",
        "CREATE TABLE d.bag (raw VARBINARY(9), doc JSON)",
        "INSERT INTO d.bag VALUES (X'00FF', '[1]'), (X'00FF', '[1]'), (NULL, NULL)",
        # Tools that write a name into a comment of their text have the rest of it outside of the comment.
        "CREATE TABLE d.`a\n@'\\%\r\n\"--` (id INT PRIMARY KEY, `\n'` TEXT)",
        "INSERT INTO d.`a\n@'\\%\r\n\"--` VALUES (1, '\n;--'), (2, NULL)",
    ),
    ("FLUSH BINARY LOGS", "BEGIN", "DELETE FROM d.t WHERE id < 5", "UPDATE d.t SET word = NULL", "COMMIT"),
    ("DROP TABLE d.bag", "TRUNCATE TABLE d.t"),
)


@dataclass(frozen=True)
class Seen:
    """The server at one moment, as it was then."""

    file: int
    position: int
    gtid_set: str
    content: dict[str, bytes]


def content(server: Server, folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in dump_database(server, "d", folder)}


def look(server: Server, cursor: Cursor, folder: Path) -> Seen:
    cursor.execute("SHOW MASTER STATUS")
    ((file, position, *_),) = cursor.fetchall()
    cursor.execute("SELECT @@gtid_binlog_pos")
    ((gtid,),) = cursor.fetchall()
    last = int(str(gtid).rpartition("-")[2])
    # The second server wrote one transaction in the middle: its numbers are missing in the first one's.
    mine, other = Gtid(0, 1, 1).source, Gtid(0, 7, 1).source
    there = 5  # the number of that transaction, as the script has it
    text = f"{mine}:1-{last}" if last < there else f"{mine}:1-{there - 1}:{there + 1}-{last},{other}:{there}"
    return Seen(file_number(str(file)), int(position), text, content(server, folder))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as running:
        yield running


@pytest.fixture(scope="module")
def seen(server: Server, tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    moments = []
    with server.connect() as connection, connection.cursor() as cursor:
        for number, statements in enumerate(STEPS):
            for statement in statements:
                cursor.execute(statement)
            moments.append(look(server, cursor, tmp_path_factory.mktemp(f"step{number}")))
    return moments


@pytest.mark.more
@pytest.mark.more(after=1)
@pytest.mark.parametrize(("step", "by"), [(0, "position"), (1, "gtids"), (2, "gtids"), (2, "position"), (3, "gtids")])
def test_the_past_is_what_it_was_when_it_was_the_present(
    server: Server, seen: list[Seen], tmp_path: Path, step: int, by: str
) -> None:
    then = seen[step]
    assert then.content not in [other.content for other in seen if other is not then]
    moment = (
        moment_of_gtids(server, then.gtid_set)
        if by == "gtids"
        else moment_of_position(server, then.file, then.position)
    )
    with content_at(server, moment) as past:
        assert content(past, tmp_path / "past") == then.content


def test_a_replay_goes_on_from_moment_to_moment_over_the_ends_of_files(
    server: Server, seen: list[Seen], tmp_path: Path
) -> None:
    with forward_replay(server) as replay:
        for number, one in enumerate(seen):
            past = replay.go_on_to(moment_of_gtids(server, one.gtid_set))
            assert content(past, tmp_path / str(number)) == one.content


def test_of_a_transaction_that_has_not_ended_there_is_nothing(server: Server, seen: list[Seen], tmp_path: Path) -> None:
    before, after = seen[1], seen[2]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINLOG EVENTS IN 'mysql-bin.000002'")
        ends = [int(row[4]) for row in cursor.fetchall() if row[2].startswith("Delete_rows")]
    assert ends[0] < after.position
    with content_at(server, moment_of_position(server, 2, ends[0])) as past:
        assert content(past, tmp_path / "past") == before.content


@pytest.mark.parametrize(
    ("find", "said"),
    [
        (lambda server, seen: moment_of_position(server, 1, seen[0].position - 1), "no event ends there"),
        (lambda server, seen: moment_of_position(server, 2, 1 << 30), "no event ends there"),
        (lambda server, seen: moment_of_position(server, 99, 4), "does not have that file"),
        (lambda server, seen: moment_of_gtids(server, f"{Gtid(3, 3, 1).source}:1-4"), "not in the server's binlogs"),
        (lambda server, seen: moment_of_gtids(server, f"{Gtid(0, 1, 1).source}:1-2:4"), "holes in the set"),
        (lambda server, seen: moment_of_gtids(server, f"{Gtid(0, 1, 1).source}:2-4"), "holes in the set"),
        (lambda server, seen: moment_of_gtids(server, ""), "not in the server's binlogs"),
    ],
)  # fmt: skip
def test_a_moment_that_never_was_is_refused(
    server: Server, seen: list[Seen], find: Callable[[Server, list[Seen]], Moment], said: str
) -> None:
    with pytest.raises(NoSuchMoment, match=said):
        find(server, seen)


def test_a_moment_that_has_not_come_is_refused(server: Server, seen: list[Seen]) -> None:
    last = int(seen[-1].gtid_set.partition(",")[0].rpartition("-")[2])
    later = moment_of_gtids(server, seen[-1].gtid_set.replace(f"-{last},", f"-{last + 50},"))
    with pytest.raises(NoSuchMoment, match="has not come there yet"), content_at(server, later):
        pass


def test_binlogs_without_their_beginning_are_refused_without_a_value_in_the_words(
    server: Server, seen: list[Seen]
) -> None:
    whole = moment_of_position(server, seen[2].file, seen[2].position)
    headless = replace(whole, files=whole.files[1:])
    with (
        pytest.raises(ReplayFailed, match="MariaDB error 1146; they must reach back") as caught,
        content_at(server, headless),
    ):
        pass
    assert "ä" not in str(caught.value)


def test_a_password_is_used_and_stands_in_no_command(
    server: Server, seen: list[Seen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = 'w\\"ord #1'
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER copier@localhost IDENTIFIED BY %s", (word,))
        cursor.execute("GRANT ALL ON *.* TO copier@localhost")
    commands: list[str] = []
    modes: list[int] = []
    start = subprocess.Popen

    def watched(command: tuple[str, ...], **options: object) -> object:
        commands.extend(command)
        modes.extend(
            stat.S_IMODE(Path(one.partition("=")[2]).stat().st_mode)
            for one in command
            if one.startswith("--defaults-file=")
        )
        return start(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("subprocess.Popen", watched)
    moment = moment_of_position(server, seen[0].file, seen[0].position)
    with content_at(replace(server, user="copier", password=word), moment) as past:
        assert content(past, tmp_path / "past") == seen[0].content
    assert modes == [0o600, 0o600]
    assert not any("ord #1" in one for one in commands)
