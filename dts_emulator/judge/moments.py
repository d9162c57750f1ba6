"""The database's content as it was at a moment of its binlog, while the server goes on writing.

A second, private MariaDB replays the binlogs from the first event up to the moment with MariaDB's own tools
(``mariadb-binlog | mariadb``). Nothing of the emulator's reading of binlogs is in it, so the content can judge what was
recorded, too. The server's binlogs must reach back to the CREATE statement of every table in them.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pymysql.cursors import Cursor

from dts_assets.model.gtids import GtidSet
from dts_assets.model.positions import file_number
from dts_emulator.errors import NoSuchMoment, ReplayFailed
from dts_emulator.source.mariadb_gtids import Gtid
from dts_emulator.source.server import Server, private_server, program

_REPLAY_ID = 4_000_000_003
_NAMES_A_TABLE = re.compile(rb"#\d{6} .*\tTable_map: ")
_NAMED = re.compile(rb" mapped to number \d+\n$")
_NOT_REACHED = b"Did not reach stop position"
_ERROR_CODE = re.compile(rb"ERROR (\d+)")


@dataclass(frozen=True, slots=True)
class Moment:
    """The end of a replay: ``stop``, a byte position in the last of ``files`` or a GTID.

    ``mariadb-binlog`` takes it so. Errors call the moment ``name``.
    """

    files: tuple[str, ...]
    stop: str
    name: str


def moment_of_position(server: Server, file: int, position: int) -> Moment:
    """Return the moment at which a binlog file had been written up to a position.

    Both are those of a ``cut`` of the ledger. Of a transaction that ends behind it there is nothing in the content.

    Raises:
        NoSuchMoment: The server does not have the file, or no event ends there.
    """
    name = f"binlog file {file}, position {position}"
    with server.connect() as connection, connection.cursor() as cursor:
        files = _binlogs(cursor)
        found = next((number for number, one in enumerate(files) if file_number(one) == file), None)
        if found is None:
            raise NoSuchMoment(name, "the server does not have that file")
        cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (files[found], position))
        (known,) = cursor.fetchone() or (None,)
        if known is None:
            raise NoSuchMoment(name, "no event ends there")
    return Moment(files[: found + 1], str(position), name)


def moment_of_gtids(server: Server, gtid_set: str) -> Moment:
    """Return the moment at which a server had committed a set of GTIDs and no more.

    The set is a ``gtid_set`` of the ledger, ``uuid:1-13``; its uuids are those of :mod:`dts_emulator.source.mariadb_gtids`.

    Raises:
        NoSuchMoment: This server never had the set, or it writes in several GTID domains, which have no order among them.
        ValueError: The text is no set of GTIDs.
    """
    wanted = GtidSet.parse(gtid_set)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@gtid_binlog_state")
        (state,) = cursor.fetchone() or ("",)
        written = [Gtid.parse(one) for one in str(state).split(",") if one]
        files = _binlogs(cursor)
    if len({gtid.domain for gtid in written}) > 1:
        raise NoSuchMoment(gtid_set, "the server writes in several GTID domains; name a binlog position")
    writers = {gtid.source: gtid for gtid in written}
    numbers = GtidSet.of(("0", first, last) for _, first, last in wanted.intervals())
    if not wanted or {source for source, _ in wanted.sources} - set(writers):
        raise NoSuchMoment(gtid_set, "it holds transactions that are not in the server's binlogs")
    if [first for _, first, _ in numbers.intervals()] != [1]:
        raise NoSuchMoment(gtid_set, "the server commits in order from 1 on, and there are holes in the set")
    last, source = max((last, source) for source, _, last in wanted.intervals())
    writer = writers[source]
    return Moment(files, f"{writer.domain}-{writer.server_id}-{last}", gtid_set)


@dataclass(slots=True)
class Replay:
    """A private server that is brought from moment to later moment of another one."""

    server: Server
    past: Server
    _stands_at: str | None = None

    def go_on_to(self, moment: Moment) -> Server:
        """Replay what lies between, and return the server with the content of a later moment.

        The moment is named by a GTID.

        Raises:
            NoSuchMoment: The moment has not come yet.
            ReplayFailed: The binlogs do not make sense from their beginning on.
        """
        _replay(self.server, moment, self.past, since=self._stands_at)
        self._stands_at = moment.stop
        return self.past


@contextmanager
def forward_replay(server: Server) -> Iterator[Replay]:
    """Run a private server without content for the block, which replays ``server`` from moment to moment."""
    with private_server(server_id=_REPLAY_ID, extra=("--skip-log-bin",)) as past:
        yield Replay(server, past)


@contextmanager
def content_at(server: Server, moment: Moment) -> Iterator[Server]:
    """Run a private server with the content of ``server`` at a moment, for the block.

    Nothing writes to it.

    Raises:
        NoSuchMoment: The moment has not come yet.
        ReplayFailed: The binlogs do not make sense from their beginning on.
    """
    with forward_replay(server) as replay:
        yield replay.go_on_to(moment)


def _binlogs(cursor: Cursor) -> tuple[str, ...]:
    cursor.execute("SHOW BINARY LOGS")
    return tuple(str(row[0]) for row in cursor.fetchall())


def _replay(server: Server, moment: Moment, past: Server, *, since: str | None = None) -> None:
    """Replay the binlogs up to a moment, from their beginning or behind the GTID ``since``.

    Raises:
        NoSuchMoment: The moment has not come yet.
        ReplayFailed: The binlogs do not make sense from there on.
    """
    # Option files, because every user of the machine sees a password that stands on a command line.
    with tempfile.TemporaryDirectory(prefix="emulator-replay-") as folder:
        source, target = (_options(one, Path(folder) / name) for one, name in ((server, "source"), (past, "target")))
        # Behind a GTID the tool takes one file, unless it is told to go on to the last one.
        went_on = () if since is None else (f"--start-position={since}", "--to-last-log")
        reader = (
            program("mariadb-binlog", "mysqlbinlog"), source, "--read-from-remote-server",
            f"--stop-position={moment.stop}", *went_on, *(moment.files if since is None else moment.files[:1]),
        )  # fmt: skip
        writer = (program("mariadb", "mysql"), target, "--binary-mode", "--max-allowed-packet=1G")
        with (Path(folder) / "said").open("w+b") as said, (Path(folder) / "refused").open("w+b") as refused:
            with (
                subprocess.Popen(reader, stdout=subprocess.PIPE, stderr=said) as reading,
                subprocess.Popen(writer, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=refused) as writing,
            ):
                assert reading.stdout is not None
                assert writing.stdin is not None
                with suppress(BrokenPipeError), writing.stdin:  # a writer that fails says why
                    writing.stdin.writelines(_without_table_comments(reading.stdout))
                reading.stdout.close()  # a reader whose writer has failed would wait for ever
            said.seek(0)
            refused.seek(0)
            words, why = said.read(), refused.read()
    if writing.returncode:
        # The client quotes the row that it could not write; a number has no values in it.
        found = _ERROR_CODE.search(why)
        raise ReplayFailed(moment.name, f"MariaDB error {found[1].decode()}" if found else "the client failed")
    if reading.returncode:
        raise ReplayFailed(
            moment.name, f"mariadb-binlog ended with {reading.returncode}: {words.decode(errors='replace').strip()}"
        )
    if _NOT_REACHED in words:
        raise NoSuchMoment(moment.name, "the server has not come there yet")


def _without_table_comments(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of ``mariadb-binlog`` without the comments that name tables.

    The tool writes a name as it is, and a line break in a name ends the comment: the rest of the name would be run.
    """
    inside = False
    for line in lines:
        inside = inside or _NAMES_A_TABLE.match(line) is not None
        if not inside:
            yield line
        inside = inside and not _NAMED.search(line)


def _options(server: Server, file: Path) -> str:
    """Return a tool's first argument: a file with the connection's settings, readable by its owner only."""
    place = f"socket={server.socket}" if server.socket else f"host={server.host}\nport={server.port}\nprotocol=tcp"
    password = server.password.replace("\\", "\\\\").replace('"', '\\"')
    file.touch(mode=0o600)
    file.write_text(f'[client]\n{place}\nuser={server.user}\npassword="{password}"\n')
    return f"--defaults-file={file}"
