"""The drawn tree is the real one, and every error says where and what to do, here and in another process."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from dts_assets import errors
from dts_assets.errors import (
    damage,
    databases,
    disks,
    machine,
    removed_rows,
    scratch,
    settings,
    sources,
    spark,
    tables,
    topics,
    windows,
)

MODULES = (errors, *(import_module(f"{errors.__name__}.{one.name}") for one in iter_modules(errors.__path__)))
"""The modules of the tree, each of which is there whether or not an example below names it."""

PACKAGES = [Path(__file__).parents[2] / name for name in ("dts_assets", "dts_emulator")]

EXAMPLES: tuple[tuple[errors.DtsAssetsError, str, str], ...] = (
    (
        errors.ConfigErrors((errors.ConfigMistake("pipeline.yaml", 3, "spark.mster", "unknown key", "write master"),)),
        "pipeline.yaml:3: spark.mster",
        "write master",
    ),
    (errors.NothingFoundError("The lake", "entry with the GTID 1-1-7", "check the GTID"), "The lake", "check the GTID"),
    (errors.UnknownNameError("The lake", "table shop.order", "it has shop.orders"), "The lake", "it has shop.orders"),
    (errors.MissingSettingError("shop", "source database", "write verify:"), "Subscription shop", "write verify:"),
    (errors.UnwritableOutputError("no space left on device"), "no space left", "call it again"),
    (errors.CatalogRefusalError("ForbiddenError"), "The catalog of the lake", "Check the address"),
    (sources.CaptureError("examples/shop", "it is a file; name its folder"), "examples/shop", "name its folder"),
    (
        sources.CaptureGrownError("examples/shop", 2, stored_end=100, found_end=120),
        "partition 2",
        "say `complete: false`",
    ),
    (sources.DatabaseError("host:3306", "it writes no binlog"), "host:3306", "cannot be read"),
    (sources.BrokerError("host:9092", "it answered without a partition"), "host:9092", "Check the settings"),
    (
        sources.UnreachableBrokerError("host:9092", "connection refused", seconds=5, bare=True),
        "host:9092",
        "Check bootstrap_servers",
    ),
    (sources.BrokerLoginError("host:9092", "SCRAM-SHA-512"), "host:9092", "Check sasl.username"),
    (sources.BrokerMechanismError("host:9092", "PLAIN", ("SCRAM-SHA-512",)), "host:9092", "name one of them"),
    (sources.BrokerCertificateError("host:9092", "certificate verify failed"), "host:9092", "ssl.ca.location"),
    (sources.BrokerDeniedError("host:9092", "read topic shop"), "host:9092", "Use the account"),
    (sources.UnsupportedByBrokerError("host:9092", "read topic shop"), "host:9092", "Use a newer broker"),
    (sources.UnknownTopicError("host:9092", "shop"), "host:9092", "Check topics under source.kafka"),
    (sources.PartitionCountError("host:9092", "topic shop", configured=4, found=8), "host:9092", "Set partitions to 8"),
    (sources.GroupInUseError("host:9092", "consumer-grp-1"), "group consumer-grp-1", "Stop that client"),
    (
        sources.MessagesGoneError("host:9092", "shop", kafka_partition=0, start=2, end=9, low=5, high=13),
        "partition 0 of topic shop",
        "Run it again",
    ),
    (
        sources.RecreatedTopicError("host:9092", "shop", kafka_partition=0, stored_end=20, found_end=3),
        "Topic shop ends at offset 3 in Kafka partition 0",
        "point bootstrap_servers back",
    ),
    (disks.FullDiskError("/lake/a.parquet"), "is full at /lake/a.parquet", "Free space"),
    (errors.UnavailableCatalogError("it gave no answer"), "The catalog of the lake", "run it again"),
    (
        errors.ExpiredCredentialsError("shop.entries", datetime(2026, 1, 5, 12, tzinfo=UTC)),
        "shop.entries have expired at 2026-01-05 12:00:00 UTC",
        "run it again",
    ),
    (errors.LakeChangeError("shop.cuts", "it was busy"), "shop.cuts", "run it again"),
    (errors.LakeTableError("shop.entries", "it has no column offset"), "shop.entries", "report it with the log"),
    (errors.LakeTableError("shop.entries", "it has no column offset", "make it anew"), "shop.entries", "make it anew"),
    (errors.ForeignDeletesError("shop.entries"), "shop.entries", "rewrite its data files first"),
    (errors.UnwritableLakeError("./lake", "permission denied"), "./lake", "Make it writable"),
    (errors.StaleGenerationError("shop.entries", expected="12", found="13"), "shop.entries", "run it again"),
    (errors.OvertakenError("shop", "p00"), "Kafka partition p00 of shop", "run it again"),
    (errors.SetBackTableError("shop.entries", current=12, newest=13), "shop.entries", "Set it forward again, to 13"),
    (
        damage.DamagedFileError("/lake/shop/snapshot/shopdb/orders/data/r/0.parquet", "it is empty"),
        "The file /lake/shop/snapshot/shopdb/orders/data/r/0.parquet",
        "dts-assets tables rebuild shopdb.orders",
    ),
    (damage.MissingFileError("/lake/shop/cuts/data/r/0.parquet"), "it is missing", "Nothing restores it but a copy"),
    (damage.DamagedCatalogError("/lake/catalog.db"), "/lake/catalog.db", "put a copy of the file in its place"),
    (
        errors.LakeFormatError("shop", "./lake", found=None, known="1"),
        "The tables of subscription shop in the lake ./lake",
        "another folder under lake.warehouse",
    ),
    (
        topics.OtherTopicsError("shop", stored="a (2), b (1)", configured="b (1), a (2)"),
        "the lake was built with a (2), b (1)",
        "use another subscription name",
    ),
    (
        errors.IncompatibleLakeError("shop", "window.every", stored="1h", configured="30m"),
        "window.every of subscription shop",
        "set it back",
    ),
    (
        windows.IncompleteWindowError("shop", {"p00|2026-01-05-01:00": ("gap",)}),
        "p00|2026-01-05-01:00: gap",
        "materialize these partitions again",
    ),
    (windows.NotClosedError("shop", ("p00|2026-01-05-01:00",), latest=None), "p00|2026-01-05-01:00", "Ask again later"),
    (
        removed_rows.RowsRemovedError(
            "shop", "raw_envelopes", {"p00|2026-01-05-03:00": datetime(2026, 1, 20, 3, tzinfo=UTC)}
        ),
        "The raw messages of p00|2026-01-05-03:00 of shop were removed by retention on 2026-01-20",
        "cannot be made again",
    ),
    (windows.NotReadyError("shop", {"2026-01-05-01:00": (0, 3)}), "2026-01-05-01:00: p00, p03", "Materialize"),
    (
        machine.MissingJarsError(("org.xerial:sqlite-jdbc:3",), "/ivy/jars"),
        "not in /ivy/jars: org.xerial:sqlite-jdbc:3",
        "name a mirror",
    ),
    (machine.MissingJavaError(found="11.0.2"), "this machine", "Install a Java 17"),
    (
        machine.MissingPackageError("live", "dts_emulator.commands.live:live", "No module named dts_emulator"),
        "dts_emulator.commands.live:live",
        "Install the package again",
    ),
    (machine.MissingJavaError(home="/opt/java"), "in /opt/java, which JAVA_HOME names", "Install a Java 17"),
    (machine.UnwritableHomeError("/home/user/runs", "read-only file system"), "/home/user/runs", "in DAGSTER_HOME"),
    (sources.UnreachableDatabaseError("db:3306", "it does not answer"), "db:3306", "does not answer"),
    (databases.CopyError("shopdb.orders", "it has no primary key", "resync it"), "shopdb.orders", "Resync it."),
    (machine.MissingExtraError("This storage", "postgres", "dagster_postgres"), "This storage", "pip install"),
    (machine.UnreachableStorageError("host:5432"), "the PostgreSQL at host:5432", "Look at the block"),
    (machine.PortInUseError(3000, what="Dagster"), "Port 3000", "choose another port"),
    (machine.PortInUseError(80, what="Dagster", reserved=True), "Port 80", "Choose another port"),
    (
        spark.UnreachableMasterError("spark://host:7077", "connection refused"),
        "spark://host:7077",
        "Check spark.master",
    ),
    (spark.NoExecutorsError("spark://host:7077", 20.0, "9g of memory"), "each with 9g of memory", "ask for less"),
    (spark.ExecutorPythonError("/opt/python", "there is no such file"), "/opt/python", "spark.pyspark.python"),
    (
        spark.ExecutorVersionError("/opt/python", found="3.12", needed="3.11"),
        "Python 3.12 (/opt/python)",
        "Name a Python",
    ),
    (spark.ExecutorPackagesError("/opt/python", "host", ("ptars is missing",)), "on host", "install those of"),
    (spark.OtherCodeError("/opt/python", "host", missing=True), "/opt/python on host", "install the version"),
    (spark.UnusableSparkError("yarn", "it did not start"), "The Spark at yarn", "Check spark.master"),
    (
        settings.UnmatchedRulesError("shop", ("rows: shopdb.order matches nothing; did you mean shopdb.orders?",)),
        "did you mean shopdb.orders?",
        "Mend them in the configuration",
    ),
    (tables.SharedFaultError("snapshot", 3, "KeyError at store/files.py:120"), "KeyError at", "Run it again"),
    (
        scratch.ScratchServerError("host:3306", "it does not let root in", scratch.CHECK_LOGIN),
        "host:3306",
        "Check the user",
    ),
    (
        scratch.FullDatabasesError("host:3306", ("shopdb",)),
        "host:3306 has tables already in shopdb",
        "Name another server",
    ),
    (
        databases.OtherServerError("db:3306", "shop", "it lacks transaction 0-1-7"),
        "it lacks transaction",
        "Name the server",
    ),
    (
        databases.UncheckedServerError("db:3306", "shop", "its binlog is gone"),
        "its binlog is gone",
        "--server-is-right",
    ),
    (errors.WireFormatError("dts-avro", "it needs a schema; name its file"), "dts-avro", "name its file"),
)
"""An error of each class that is raised, where it says that something is wrong, and the beginning of what to do."""


def below(cls: type[errors.DtsAssetsError]) -> Iterator[type[errors.DtsAssetsError]]:
    """Each class of the package below one; what other packages add for themselves is theirs."""
    for child in cls.__subclasses__():
        if child.__module__ in {one.__name__ for one in MODULES}:
            yield child
            yield from below(child)


CLASSES: list[type[errors.DtsAssetsError]] = [errors.DtsAssetsError, *below(errors.DtsAssetsError)]
KINDS = {"DtsAssetsError", "SourceError", "LakeError", "WindowError", "MachineError"}
"""Classes that are there to be caught: they are what their children have in common."""

DRAWN = re.compile(r"^ {4}([│├└─ ]*)(\w+Errors?) +(\d+)? *(.*)$")


def drawn() -> dict[str, tuple[str | None, int]]:
    """By class name: its parent and exit code, as the docstring draws them."""
    found: dict[str, tuple[str | None, int]] = {}
    above: list[tuple[str, int]] = []
    for line in filter(None, map(DRAWN.match, (errors.__doc__ or "").splitlines())):
        branch, name, code, _ = line.groups()
        del above[len(branch) // 3 :]
        parent = above[-1] if above else None
        exit_code = int(code) if code is not None else parent[1] if parent is not None else 0
        found[name] = (None if parent is None else parent[0], exit_code)
        above.append((name, exit_code))
    return found


def test_the_drawn_tree_is_the_tree_of_the_classes() -> None:
    real = {
        cls.__name__: (None if cls is errors.DtsAssetsError else cls.__mro__[1].__name__, cls.exit_code)
        for cls in CLASSES
    }
    assert drawn() == real


def test_an_exit_code_is_drawn_where_it_differs_from_the_parents() -> None:
    coded = {line[2] for line in filter(None, map(DRAWN.match, (errors.__doc__ or "").splitlines())) if line[3]}
    assert coded == {cls.__name__ for cls in CLASSES if cls.exit_code != getattr(cls.__mro__[1], "exit_code", None)}


def test_every_class_but_the_kinds_has_an_example_here() -> None:
    assert {type(error).__name__ for error, _, _ in EXAMPLES} == {cls.__name__ for cls in CLASSES} - KINDS


@pytest.mark.more
def test_every_class_but_the_kinds_is_raised_somewhere_and_no_kind_is() -> None:
    names = {cls.__name__ for cls in CLASSES}
    made = {
        called.id
        for package in PACKAGES
        for path in package.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and isinstance(called := call.func, ast.Name)
    }
    assert made & names == names - KINDS


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example[0]).__name__)
def test_a_sentence_says_where_and_what_to_do(example: tuple[errors.DtsAssetsError, str, str]) -> None:
    error, where, what_to_do = example
    assert where in str(error)
    assert what_to_do in str(error)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example[0]).__name__)
def test_errors_survive_pickling_with_all_their_facts(example: tuple[errors.DtsAssetsError, str, str]) -> None:
    error = example[0]
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    for fact in fields(error):
        assert getattr(again, fact.name) == getattr(error, fact.name)


def test_facts_given_by_position_are_the_ones_that_the_sentence_names() -> None:
    error = errors.LakeTableError("shop.entries", "it has no column offset")
    assert (error.table, error.what) == ("shop.entries", "it has no column offset")
    assert str(error) == (
        "The lake table shop.entries cannot be used as asked: it has no column offset; report it with the log of the run, "
        "because it is a fault of dts-assets."
    )


def test_a_window_that_is_not_ready_names_the_kafka_partitions_it_waits_for() -> None:
    text = str(windows.NotReadyError("shop", {"2026-01-05-02:00": (1,), "2026-01-05-01:00": (0, 3)}))
    assert "2026-01-05-01:00: p00, p03; 2026-01-05-02:00: p01" in text


def test_a_mistake_reads_as_file_line_place_and_fix() -> None:
    mistake = errors.ConfigMistake("pipeline.yaml", 7, "lake.warehous", "unknown key", "did you mean warehouse?")
    assert str(mistake) == "pipeline.yaml:7: lake.warehous: unknown key; did you mean warehouse?"
    whole = errors.ConfigMistake("pipeline.yaml", None, "", "the file does not exist", "create it")
    assert str(whole) == "pipeline.yaml: the file does not exist; create it"


def test_only_what_may_succeed_again_unchanged_is_retriable() -> None:
    assert {cls.__name__ for cls in CLASSES if cls.retriable} == {
        "UnreachableDatabaseError",
        "ExpiredCredentialsError",
        "FullDiskError",
        "GroupInUseError",
        "LakeChangeError",
        "MessagesGoneError",
        "NoExecutorsError",
        "NotClosedError",
        "NotReadyError",
        "OvertakenError",
        "SharedFaultError",
        "StaleGenerationError",
        "UnavailableCatalogError",
        "UnreachableBrokerError",
        "UnreachableMasterError",
        "UnreachableStorageError",
    }


AGAIN = re.compile(r"\b(run it again|be run again|run again|try again|ask again|repeat it)\b", re.IGNORECASE)
"""The words with which a sentence says that a repetition may succeed although nobody has mended anything."""


def texts_by_class(path: Path) -> Iterator[tuple[str, str]]:
    """Each text of a module's code with the class that it makes an error of, or in whose sentence it stands."""
    tree = ast.parse(path.read_text("utf-8"))
    names = {cls.__name__ for cls in CLASSES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield from ((node.func.id, text) for text in texts_in(node))
        elif isinstance(node, ast.ClassDef) and node.name in names:
            for part in node.body:
                body = part.body[1:] if isinstance(part, ast.FunctionDef) else [part]  # without the docstring
                if isinstance(part, ast.FunctionDef | ast.AnnAssign):
                    yield from ((node.name, text) for statement in body for text in texts_in(statement))


def texts_in(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


@pytest.mark.more
def test_what_says_run_it_again_is_retriable_wherever_the_words_stand() -> None:
    """The sentence and the sensors, which ask retriable runs again sooner, say one thing."""
    retriable = {cls.__name__ for cls in CLASSES if cls.retriable}
    saying = [
        (name, text)
        for path in (PACKAGES[0]).rglob("*.py")
        for name, text in texts_by_class(path)
        if AGAIN.search(text)
    ]
    assert {"LakeChangeError", "StaleGenerationError", "MessagesGoneError"} <= {name for name, _ in saying}
    assert [one for one in saying if one[0] not in retriable] == []
    assert [str(error) for error, _, _ in EXAMPLES if AGAIN.search(str(error)) and not error.retriable] == []


def test_a_server_that_restarts_gives_no_error_that_is_retriable_anyway() -> None:
    assert {cls.__name__ for cls in CLASSES if cls.while_restarting} == {
        "BrokerDeniedError",
        "BrokerLoginError",
        "UnknownTopicError",
    }
    assert not any(cls.retriable for cls in CLASSES if cls.while_restarting)


def test_lost_and_missing_messages_are_told_apart_by_their_offsets() -> None:
    lost = sources.MessagesGoneError("host:9092", "shop", kafka_partition=0, start=2, end=9, low=5, high=13)
    assert "offsets [2, 5) were deleted" in str(lost)
    missing = sources.MessagesGoneError("host:9092", "shop", kafka_partition=0, start=6, end=20, low=5, high=13)
    assert "offsets [13, 20) are not there" in str(missing)
