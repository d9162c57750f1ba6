"""Errors keep their facts through pickling and always say what to do."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import fields

import pytest

from dts_assets import broker_errors, errors

EXAMPLES: tuple[errors.DtsAssetsError, ...] = (
    errors.DtsAssetsError(),
    errors.ConfigErrors((errors.ConfigMistake("pipeline.yaml", 3, "spark.mster", "unknown key", "write master"),)),
    errors.SourceError(),
    errors.CaptureError("examples/shop", "it has no column offset"),
    errors.CaptureGrownError("examples/shop", 2, stored_end=100, found_end=120),
    broker_errors.BrokerError("host:9092", "it answered without a partition"),
    broker_errors.UnreachableBrokerError("host:9092", "connection refused", seconds=5, bare=True),
    broker_errors.BrokerLoginError("host:9092", "SCRAM-SHA-512"),
    broker_errors.BrokerMechanismError("host:9092", "PLAIN", ("SCRAM-SHA-512",)),
    broker_errors.BrokerCertificateError("host:9092", "certificate verify failed"),
    broker_errors.BrokerDeniedError("host:9092", "read topic shop"),
    broker_errors.UnknownTopicError("host:9092", "shop"),
    broker_errors.PartitionCountError("host:9092", "topic shop", configured=4, found=8),
    broker_errors.GroupInUseError("host:9092", "consumer-grp-1"),
    broker_errors.MessagesGoneError("host:9092", "shop", kafka_partition=0, start=2, end=9, low=5, high=13),
    broker_errors.RecreatedTopicError("host:9092", "shop", kafka_partition=0, stored_end=20, found_end=3),
    errors.LakeError(),
    errors.LakeTableError("shop.entries", "it has no column offset"),
    errors.UnwritableLakeError("./lake", "permission denied"),
    errors.StaleGenerationError("shop.entries", expected="12", found="13"),
    errors.IncompatibleLakeError("shop", "window.every", stored="1h", configured="30m"),
    errors.IncompleteWindowError("shop", {"p00|2026-01-05-01:00": ("gap",)}),
    errors.NotClosedError("shop", ("p00|2026-01-05-01:00",), latest=None),
    errors.NotReadyError("shop", {"2026-01-05-01:00": (0, 3)}),
    errors.SurroundingsError(),
    errors.MissingJavaError(found="11.0.2"),
    errors.PortInUseError(3000, what="Dagster"),
    errors.SparkServerError(1, "spark.log"),
    errors.WireFormatError("dts-avro", "it needs the customer's schema file"),
)


def every_class(root: type[errors.DtsAssetsError] = errors.DtsAssetsError) -> Iterator[type[errors.DtsAssetsError]]:
    yield root
    for child in root.__subclasses__():
        yield from every_class(child)


def name_of(cls: type[errors.DtsAssetsError]) -> str:
    return cls.__name__


OURS = (errors.__name__, broker_errors.__name__)
"""The modules whose errors are drawn; what other rooms add for themselves is theirs."""

CLASSES: list[type[errors.DtsAssetsError]] = sorted(
    (one for one in every_class() if one.__module__ in OURS), key=name_of
)


def test_every_class_has_an_example_here() -> None:
    assert {type(error) for error in EXAMPLES} == set(CLASSES)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling_with_all_their_facts(error: errors.DtsAssetsError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    for fact in fields(error):
        assert getattr(again, fact.name) == getattr(error, fact.name)


@pytest.mark.parametrize("cls", CLASSES, ids=name_of)
def test_the_drawn_tree_shows_every_class_with_its_exit_code(cls: type[errors.DtsAssetsError]) -> None:
    drawn = [line for line in (errors.__doc__ or "").splitlines() if f" {cls.__name__} " in f" {line} "]
    assert len(drawn) == 1
    parent = cls.__mro__[1]
    own_code = cls is errors.DtsAssetsError or cls.exit_code != getattr(parent, "exit_code", None)
    assert (str(cls.exit_code) in drawn[0]) == own_code


def test_facts_given_by_position_are_the_ones_that_the_sentence_names() -> None:
    error = errors.LakeTableError("shop.entries", "it has no column offset")
    assert (error.table, error.what) == ("shop.entries", "it has no column offset")
    assert str(error) == "The lake table shop.entries cannot be used as asked: it has no column offset."


def test_a_window_that_is_not_ready_names_the_kafka_partitions_it_waits_for() -> None:
    text = str(errors.NotReadyError("shop", {"2026-01-05-02:00": (1,), "2026-01-05-01:00": (0, 3)}))
    assert "2026-01-05-01:00: p00, p03; 2026-01-05-02:00: p01" in text


def test_a_mistake_reads_as_file_line_place_and_fix() -> None:
    mistake = errors.ConfigMistake("pipeline.yaml", 7, "lake.warehous", "unknown key", "did you mean warehouse?")
    assert str(mistake) == "pipeline.yaml:7: lake.warehous: unknown key; did you mean warehouse?"
    whole = errors.ConfigMistake("pipeline.yaml", None, "", "the file does not exist", "create it")
    assert str(whole) == "pipeline.yaml: the file does not exist; create it"


def test_only_what_may_succeed_again_unchanged_is_retriable() -> None:
    assert {cls.__name__ for cls in CLASSES if cls.retriable} >= {"UnreachableBrokerError", "StaleGenerationError"}
    assert not broker_errors.BrokerLoginError.retriable


def test_lost_and_missing_messages_are_told_apart_by_their_offsets() -> None:
    lost = broker_errors.MessagesGoneError("host:9092", "shop", kafka_partition=0, start=2, end=9, low=5, high=13)
    assert "offsets [2, 5) were deleted" in str(lost)
    missing = broker_errors.MessagesGoneError("host:9092", "shop", kafka_partition=0, start=6, end=20, low=5, high=13)
    assert "offsets [13, 20) are not there" in str(missing)
