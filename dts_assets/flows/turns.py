"""The turns of flows: one run at a time works on a Kafka partition, one on the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dts_assets.flows.lease_keeper import keeper
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.spans import Span, partition_key
from dts_assets.model.turns import TABLES_TURN, Turn


@contextmanager
def ingest_turn(pipeline: Pipeline, span: Span, progress: Progress) -> Iterator[Turn]:
    """Hold the leases of a span's Kafka partitions: other runs of raw or entries wait for them.

    Raises:
        IncompatibleLakeError: The lake was built with other settings.
        OtherTopicsError: The lake was built with other topics.
    """
    pipeline.check_shape()  # first: it makes the table that names the lake's format
    pipeline.check_topics()
    with _turn(pipeline, [partition_key(partition) for partition in span.kafka_partitions], progress) as turn:
        yield turn


@contextmanager
def tables_turn(pipeline: Pipeline, progress: Progress) -> Iterator[Turn]:
    """Hold the lease of the tables: other runs of them wait for it.

    Raises:
        IncompatibleLakeError: The lake was built with other settings.
    """
    pipeline.check_shape()  # first: it makes the table that names the lake's format
    with _turn(pipeline, [TABLES_TURN], progress) as turn:
        yield turn


@contextmanager
def _turn(pipeline: Pipeline, parts: Sequence[str], progress: Progress) -> Iterator[Turn]:
    with keeper(pipeline.lake, pipeline.name).hold(parts, progress) as turn:
        yield turn
