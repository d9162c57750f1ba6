"""One task of DRS under every topic policy: statements in other topics than rows, and everything as with a single topic.

A real MariaDB is the judge of the snapshots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from dts_assets.errors import IncompatibleLakeError
from dts_assets.errors.topics import OtherTopicsError
from dts_assets.model.problems import ProblemCode
from dts_assets.model.tables import TableId
from dts_emulator.drs.drs_options import DrsJsonOptions, DrsOptions
from dts_emulator.drs.drs_task import produce_drs
from dts_emulator.judge.comparison import compare
from dts_emulator.judge.dump import dump_database
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message
from dts_emulator.source.binlog import read_transactions
from dts_emulator.source.events import Ddl, Transaction
from dts_emulator.source.server import Server, private_server
from dts_emulator.source.source_schema import ReplayedCatalog
from tests.flows.harness import Bench, Harness
from tests.flows.history import EVERY, WINDOWS, border
from tests.flows.test_any_order import assert_equal
from tests.tiers import times

pytestmark = [pytest.mark.spark, pytest.mark.database]

WORK = (
    "CREATE DATABASE d",
    "CREATE DATABASE e",
    "USE d",
    "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(40), seen TIMESTAMP NULL)",
    "CREATE TABLE bag (word VARCHAR(10), n INT)",
    "CREATE TABLE e.far (a INT, b CHAR(8), PRIMARY KEY (b, a))",
    "INSERT INTO t SELECT seq, CONCAT('n', seq), '2026-01-05 10:00:00' FROM seq_1_to_40",
    "INSERT INTO e.far SELECT seq, CONCAT('k', seq) FROM seq_1_to_20",
    "INSERT INTO bag VALUES ('x', 1), ('x', 1), (NULL, 2)",
    "UPDATE t SET id = -id WHERE id % 5 = 0",
    "ALTER TABLE t ADD COLUMN late INT",
    "UPDATE t SET late = id WHERE id < 20",
    "DELETE FROM bag LIMIT 1",
    "DELETE FROM t WHERE id % 7 = 3",
    "TRUNCATE TABLE bag",
    "INSERT INTO bag VALUES ('kept', 1)",
    "USE e",
    "ALTER TABLE far ADD COLUMN c VARCHAR(9)",
    "UPDATE far SET c = b, a = -a WHERE a > 10",
    "USE d",
    "INSERT INTO t (id, note) VALUES (500, 'again'), (3, 'three') ON DUPLICATE KEY UPDATE note = 'again'",
    "ALTER TABLE t DROP COLUMN seen",
    "INSERT INTO t (id, note, late) VALUES (501, 'new', 1)",
    "DELETE FROM e.far WHERE a = -11",
)
TABLES = ("d.t", "d.bag", "e.far")
POLICIES: dict[str, dict[str, Any]] = {
    "a topic for each table": {"topic_policy": 1},
    "a topic for each database": {"topic_policy": 2},
    "names by a template": {"topic_policy": 1, "topic_template": "drs.$database$-$tablename$-v1"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as running:
        with running.connect() as connection, connection.cursor() as cursor:
            for statement in WORK:
                cursor.execute(statement)
        yield running


@pytest.fixture(scope="module")
def transactions(server: Server) -> list[Transaction]:
    """The server's transactions, spread over all windows."""
    with private_server(server_id=2) as history, history.connect() as connection:
        found = list(read_transactions(server, ReplayedCatalog(connection)))
    step = WINDOWS * EVERY / (len(found) + 1)
    return [_at(one, int((border(0) + number * step).timestamp())) for number, one in enumerate(found)]


@pytest.fixture(scope="module")
def dump(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dump")
    assert len([file for name in ("d", "e") for file in dump_database(server, name, folder)]) == len(TABLES)
    return folder


def _at(transaction: Transaction, seconds: int) -> Transaction:
    return Transaction(tuple(replace(one, at=replace(one.at, timestamp=seconds)) for one in transaction.events))


OPTIONS = DrsOptions(partitions=2, partition_policy=2)
JSON = DrsJsonOptions(partitions=2, partition_policy=2)


def capture_of(
    folder: Path, messages: Sequence[Message], *, partitions: int = OPTIONS.partitions
) -> tuple[Path, dict[str, int]]:
    """Messages as a capture, and its topics by name, each with its Kafka partitions."""
    write_capture(messages, folder, topic="only")
    names = sorted({one.topic for one in messages if one.topic is not None})
    return folder, dict.fromkeys(names, partitions)


def opened(bench: Bench, folder: Path, topics: dict[str, int], *, form: str = "drs-json-c", **settings: Any) -> Harness:
    given: dict[str, Any] = {"topics": topics, "partitions": sum(topics.values()) or OPTIONS.partitions}
    return bench.open(folder, format=form, source_time_zone="+00:00", **given, **settings)


def changelogs(harness: Harness) -> dict[str, list[str]]:
    """Every row of all changelogs, less the place in Kafka that a topic gives it."""
    found = {}
    for name in TABLES:
        rows = harness.rows("changelog", *name.split("."))
        found[name] = sorted(
            str(sorted((key, value) for key, value in row.items() if key not in ("kafka_partition", "kafka_offset")))
            for row in rows
        )
        assert rows
    return found


def kept(harness: Harness) -> Counter[tuple[str, Any]]:
    """The kept changes by table and window, added up over Kafka partitions."""
    sums: Counter[tuple[str, Any]] = Counter()
    for row in harness.pipeline.ledger.window_tables():
        sums[str(row.table), row.window_start] += row.kept
    return +sums


def statements(harness: Harness) -> list[str]:
    return sorted(f"{row['source_position']} {row['effect']} {row['sql']}" for row in harness.rows("ddl"))


def assert_as_the_database(harness: Harness, dump: Path, *, tables: Sequence[str] = TABLES) -> None:
    for name in tables:
        found = harness.pipeline.lake.scan(harness.pipeline.path("snapshot", *TableId(*_parts(name)).path))
        assert found is not None
        names = pq.read_schema(dump / f"{name}.parquet").names
        verdict = compare(found.select(names), dump / f"{name}.parquet")
        assert verdict.equal, str(verdict)
        assert verdict.rows_found > 0


def _parts(name: str) -> tuple[str, str, str]:
    database, table = name.split(".")
    return database, "", table


@pytest.mark.more
@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("a topic for each table", OPTIONS),
        ("a topic for each database", JSON),
        *(pytest.param(policy, options, marks=pytest.mark.long) for policy in POLICIES for options in (OPTIONS, JSON)),
    ],
)
def test_every_topic_policy_gives_the_tables_of_a_single_topic(
    bench: Bench, tmp_path: Path, transactions: list[Transaction], dump: Path, options: DrsOptions, policy: str
) -> None:
    form = "drs-json" if isinstance(options, DrsJsonOptions) else "drs-json-c"
    single = opened(bench, *capture_of(tmp_path / "single", list(produce_drs(transactions, options))), form=form)
    single.settle()
    assert_as_the_database(single, dump)
    messages = list(produce_drs(transactions, replace(options, **POLICIES[policy])))
    folder, topics = capture_of(tmp_path / "several", messages)
    assert len(topics) >= 2
    several = opened(bench, folder, topics, form=form)
    several.settle()
    assert_as_the_database(several, dump)
    assert changelogs(several) == changelogs(single)
    assert kept(several) == kept(single)
    assert statements(several) == statements(single)
    if POLICIES[policy]["topic_policy"] == 1:
        with_rows = {row["topic"] for row in several.rows("raw_envelopes") if b'"isDdl":false' in row["value"]}
        with_ddl = {row["topic"] for row in several.rows("raw_envelopes") if b'"isDdl":true' in row["value"]}
        assert not with_rows & with_ddl, "statements stand in topics of their own"


@pytest.mark.more
def test_any_order_of_windows_and_kafka_partitions_of_several_topics(
    bench: Bench, tmp_path: Path, transactions: list[Transaction], dump: Path
) -> None:
    messages = list(produce_drs(transactions, replace(OPTIONS, partitions=1, topic_policy=1)))
    folder, topics = capture_of(tmp_path / "capture", messages, partitions=1)
    forwards, shuffled = opened(bench, folder, topics), opened(bench, folder, topics)
    forwards.settle()
    partitions = shuffled.pipeline.kafka_partitions
    pieces = [partitions[place :: times(2, len(partitions))] for place in range(times(2, len(partitions)))]
    cells = [(number, piece) for number in range(WINDOWS) for piece in pieces]
    Random(5).shuffle(cells)
    for number, piece in cells:
        shuffled.raw(number, partitions=piece)
        shuffled.entries(number, partitions=piece)
    for number in (2, 0, 3, 1):
        shuffled.tables(number)
    shuffled.settle()
    assert_equal(shuffled, forwards)
    assert_as_the_database(shuffled, dump)
    assert {row.lineage for row in forwards.pipeline.ledger.lineages()} == {0}


@pytest.mark.more
def test_a_resumed_task_sends_again_into_the_topics_where_it_was(
    bench: Bench, tmp_path: Path, transactions: list[Transaction], dump: Path
) -> None:
    resumed = replace(OPTIONS, topic_policy=1, pause_every=11, repeated=6)
    harness = opened(bench, *capture_of(tmp_path / "capture", list(produce_drs(transactions, resumed))))
    harness.settle()
    assert sum(row.redelivered for row in harness.pipeline.ledger.window_tables()) > 0
    assert {row.lineage for row in harness.pipeline.ledger.lineages()} == {0}
    assert_as_the_database(harness, dump, tables=("d.t", "e.far"))
    # A table without a key: in a topic of its own a message that is sent again stands beside the first one, as would a piece of
    # the same event. Nobody can tell, both are kept, and the windows say so.
    doubts = [problem for row in harness.pipeline.ledger.windows() for problem in row.problems]
    assert ProblemCode.ID in {one.code for one in doubts}


@pytest.mark.more
def test_a_task_made_anew_begins_a_lineage_in_all_its_topics(
    bench: Bench, tmp_path: Path, transactions: list[Transaction], dump: Path
) -> None:
    policy = replace(OPTIONS, topic_policy=1)
    first = list(produce_drs(transactions[: len(transactions) * 2 // 3], policy))
    counts = Counter((one.topic, one.partition) for one in first)
    begin = max(one.timestamp for one in first) // 1000 + 60
    anew = [_at(one, begin + 10 * number) for number, one in enumerate(transactions)]
    altered = next(number for number, one in enumerate(transactions) if _alters(one))
    loaded = produce_drs(anew, replace(policy, full_load_until=begin + 10 * (altered - 1)))
    second = [replace(one, offset=one.offset + counts[one.topic, one.partition]) for one in loaded]
    folder, topics = capture_of(tmp_path / "capture", [*first, *second])
    harness = opened(bench, folder, topics)
    harness.settle()
    assert [row.lineage for row in harness.pipeline.ledger.lineages()] == [0, 1]
    assert_as_the_database(harness, dump)


def _alters(transaction: Transaction) -> bool:
    """Tell whether a transaction is a statement that a full load cannot pass over."""
    return any(isinstance(one, Ddl) and not one.sql.startswith("CREATE") for one in transaction.events)


class TestTopicsThatChange:
    """The ledger keeps the topics that it numbers: others may follow them, and nothing else may change."""

    @pytest.fixture
    def recorded(self, tmp_path: Path, transactions: list[Transaction]) -> tuple[Path, dict[str, int]]:
        messages = list(produce_drs(transactions, replace(OPTIONS, topic_policy=1)))
        return capture_of(tmp_path / "capture", messages)

    @pytest.mark.more
    def test_topics_added_at_the_end_become_what_a_new_lake_has(
        self, bench: Bench, recorded: tuple[Path, dict[str, int]], tmp_path: Path, dump: Path
    ) -> None:
        folder, topics = recorded
        names = list(topics)
        order = [*names[2:], *names[:2]]  # the added topics have the earliest messages
        few = dict.fromkeys(order[:-2], OPTIONS.partitions)
        part = tmp_path / "part"
        part.mkdir()
        table = pq.read_table(folder)
        pq.write_table(table.filter([name in few for name in table["topic"].to_pylist()]), part / "part.parquet")
        grown = opened(bench, part, few, name="several_grown", complete=False, window={"grace": timedelta(seconds=1)})
        grown.settle()
        before = grown.pipeline.first_window()
        more = dict.fromkeys(order, OPTIONS.partitions)
        grown = opened(bench, folder, more, name="several_grown")
        grown.settle()
        new = opened(bench, folder, more)
        new.settle()
        # Its first windows were closed by the grace of a recording that went on; all else is equal.
        assert grown.everything(without=("closed_by",)) == new.everything(without=("closed_by",))
        assert_as_the_database(grown, dump)
        first = grown.pipeline.first_window()
        assert before is not None
        assert first is not None
        assert first <= before
        assert first == new.pipeline.first_window()

    @pytest.mark.more
    @pytest.mark.parametrize(
        "kind",
        [
            "another order",
            *(
                pytest.param(one, marks=pytest.mark.long)
                for one in ("a topic less", "another topic", "a partition more")
            ),
        ],
    )
    def test_any_other_change_is_refused_before_anything_is_written(
        self, bench: Bench, recorded: tuple[Path, dict[str, int]], kind: str
    ) -> None:
        folder, topics = recorded
        name = f"several_refused_{kind.replace(' ', '_')}"
        harness = opened(bench, folder, topics, name=name)
        harness.settle()
        stored = harness.everything()
        first, *others = topics
        changed = {
            "another order": {**{one: 2 for one in others}, first: 2},
            "a topic less": {one: 2 for one in others},
            "another topic": {"renamed": 2, **{one: 2 for one in others}},
            "a partition more": {first: 3, **{one: 2 for one in others}},
        }[kind]
        other = opened(bench, folder, changed, name=name)
        for step in (other.raw, other.entries, other.tables):
            with pytest.raises(OtherTopicsError) as caught:
                step(0)
            assert f"the lake was built with {first} (2)" in str(caught.value)
        assert harness.everything() == stored
        harness.settle()

    @pytest.mark.more
    def test_a_single_topic_of_another_name_is_refused(
        self, bench: Bench, tmp_path: Path, transactions: list[Transaction]
    ) -> None:
        messages = list(produce_drs(transactions, OPTIONS))
        write_capture(messages, tmp_path / "a", topic="a")
        write_capture(messages, tmp_path / "b", topic="b")
        opened(bench, tmp_path / "a", {}, name="several_single").settle()
        with pytest.raises(OtherTopicsError, match=r"are b \(2\), but the lake was built with a \(2\)"):
            opened(bench, tmp_path / "b", {}, name="several_single").raw(0)
        opened(bench, tmp_path / "a", {"a": 2}, name="several_single").settle()
        wider = bench.open(tmp_path / "a", name="several_single", format="drs-json-c", partitions=3)
        with pytest.raises(IncompatibleLakeError, match="partitions of subscription several_single is 3"):
            wider.raw(0)
