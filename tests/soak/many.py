"""Very many mutated messages of each format, with faults of all kinds at once, in several processes.

For the formats of DTS they are slices of the example's recording, for all others topics that are made by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import count
from multiprocessing import get_context

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.wire.drs_avro import DrsAvro
from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.dts_avro import DtsAvro
from dts_assets.wire.dts_json import DtsJson
from dts_assets.wire.flat_json.drs import DrsMessages
from dts_assets.wire.format import WireFormat
from dts_emulator.drs.drs_avro_task import drs_schema_file
from dts_emulator.dts_avro.records import schema_file
from dts_emulator.faults.injection import Kind
from dts_emulator.faults.recorded_topic import Topic
from tests.soak import canal_mutations
from tests.soak.canal_topic import canal_topic
from tests.soak.documents_topic import TABLES as DOCUMENT_TABLES
from tests.soak.documents_topic import in_documents
from tests.soak.drs_topic import TABLES as DRS_TABLES
from tests.soak.drs_topic import drs_topic
from tests.soak.mutations import Recording, Report, shop, slice_of
from tests.soak.postgresql_log import in_postgresql_log, tables_in_postgresql
from tests.soak.postgresql_topic import TABLES as POSTGRESQL_TABLES
from tests.soak.postgresql_topic import in_postgresql
from tests.soak.record_topics import in_avro, in_drs_avro, in_json

_KINDS = (Kind.DROP, Kind.REPEAT, Kind.REREAD, Kind.FLIP, Kind.TRUNCATE, Kind.REORDER, Kind.CUT)
"""What can happen to a topic. A message in another partition, or an end that comes early, hides what else is lost there."""

_WITHOUT_SETS = tuple(kind for kind in _KINDS if kind is not Kind.CUT)
"""The kinds for a format whose messages are whole entry sets."""

_START, _HOURS = datetime(2026, 1, 5, tzinfo=UTC), 8
_WINDOW = timedelta(minutes=10)
_ONE_IN = 6
"""Messages for each fault: as many as leave two untouched ones between any two."""
_RECORDS_ONE_IN = 18
"""A window has three times as many messages as in Protobuf, and names as many places of a kind."""
_DRS_MESSAGES, _DRS_ONE_IN = 1_500, 15
"""Without CHECKPOINTs a task that resumes sends more again, so that there is room for fewer faults."""
_WORST = 50
"""Violations that are told; a mistake makes very many."""


def many(format_name: str, messages: int, *, processes: int, first_seed: int = 0) -> Report:
    """What became of so many mutated messages of a format or somewhat more."""
    report = Report()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        seeds = count(first_seed)
        running = {pool.submit(RUNS[format_name], next(seeds)) for _ in range(2 * processes)}
        while report.messages < messages and len(report.violations) < _WORST:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                report.add(one.result())
                running.add(pool.submit(RUNS[format_name], next(seeds)))
        for one in running:
            one.cancel()
    return report


def run_of_dts_protobuf(seed: int) -> Report:
    """An hour of the recording with faults in it."""
    recording = _hour(seed % _HOURS)
    size = sum(map(len, recording.topic.partitions.values()))
    return _report(recording, seed, _KINDS, size // _ONE_IN)


def run_of_postgresql_log(seed: int) -> Report:
    """An hour of the recording, told as of a PostgreSQL, with faults in it.

    Without GTIDs a place that a flip made larger lets another log begin in all Kafka partitions, as one of them says. What comes
    again there is no copy any more, so that no run has both.
    """
    recording = _hour_in_postgresql(seed % _HOURS)
    size = sum(map(len, recording.topic.partitions.values()))
    apart = (Kind.REPEAT, Kind.REREAD) if seed % 3 == 1 else (Kind.FLIP,)
    return _report(recording, seed, tuple(kind for kind in _KINDS if kind not in apart), size // _ONE_IN)


def run_of_dts_avro(seed: int) -> Report:
    """An hour of the recording, told in records of Avro, with faults in it."""
    return _of_records(_hour_in_avro(seed % _HOURS), seed)


def run_of_dts_json(seed: int) -> Report:
    """An hour of the recording, told in records of JSON, with faults in it."""
    return _of_records(_hour_in_json(seed % _HOURS), seed)


def _of_records(recording: Recording, seed: int) -> Report:
    size = sum(map(len, recording.topic.partitions.values()))
    return _report(recording, seed, _WITHOUT_SETS, size // _RECORDS_ONE_IN)


def run_of_drs(wire: DrsMessages, seed: int) -> Report:
    """An hour of a task by seed, with faults in it."""
    return _drs_report(drs_topic(seed, _DRS_MESSAGES, _START, timedelta(hours=1), form=wire.name), wire, seed)


def run_of_drs_avro(seed: int) -> Report:
    """An hour of a task by seed in Avro, in one frame after the other, with faults in it."""
    topic = drs_topic(seed, _DRS_MESSAGES, _START, timedelta(hours=1), form=DrsJson.name)
    return _drs_report(in_drs_avro(topic, seed), DrsAvro(drs_schema_file()), seed)


def run_of_postgresql(seed: int) -> Report:
    """An hour of a task by seed whose tables have a schema, with faults in it."""
    topic = drs_topic(seed, _DRS_MESSAGES, _START, timedelta(hours=1), form=DrsJson.name)
    return _drs_report(in_postgresql(topic), DrsJson(), seed, POSTGRESQL_TABLES)


def run_of_documents(seed: int) -> Report:
    """An hour of a task by seed that tells documents, with faults in it."""
    topic = drs_topic(seed, _DRS_MESSAGES, _START, timedelta(hours=1), form=DrsJson.name)
    return _drs_report(in_documents(topic), DrsJson(), seed, DOCUMENT_TABLES)


def _drs_report(
    topic: Topic, wire: WireFormat, seed: int, tables: Mapping[TableId, tuple[Column, ...]] = DRS_TABLES
) -> Report:
    recording = Recording(topic, _WINDOW, tables, wire)
    return _report(recording, seed, _WITHOUT_SETS, _DRS_MESSAGES // _DRS_ONE_IN)


def run_of_canal(seed: int) -> Report:
    """An hour of a Canal by seed, with faults in it."""
    topic = canal_topic(seed, _DRS_MESSAGES, _START, timedelta(hours=1))
    report = canal_mutations.mutated_report(
        topic, _WINDOW, seed=seed, kinds=canal_mutations.KINDS, count=_DRS_MESSAGES // _ONE_IN
    )
    report.violations = [f"seed {seed}: {one}" for one in report.violations]
    return report


RUNS: Mapping[str, Callable[[int], Report]] = {
    "dts-protobuf": run_of_dts_protobuf,
    "dts-protobuf of PostgreSQL": run_of_postgresql_log,
    "dts-avro": run_of_dts_avro,
    "dts-json": run_of_dts_json,
    "drs-avro": run_of_drs_avro,
    **{wire.name: partial(run_of_drs, wire) for wire in (DrsJson(), DrsJsonC())},
    "drs-json with schemas": run_of_postgresql,
    "drs-json of documents": run_of_documents,
    "canal-json": run_of_canal,
}
"""One run by its seed, of each format."""


def _report(recording: Recording, seed: int, kinds: tuple[Kind, ...], count: int) -> Report:
    if seed % 3 == 2:  # a flip may give a message another place, and then any message behind it may be doubted
        kinds = tuple(kind for kind in kinds if kind is not Kind.FLIP)
    report = recording.mutated(seed=seed, kinds=kinds, count=count).report()
    report.violations = [f"seed {seed}: {one}" for one in report.violations]
    return report


@cache
def _hour(number: int) -> Recording:
    start = _START + timedelta(hours=number)
    return Recording.of(slice_of(_whole(), start, start + timedelta(hours=1)), _WINDOW)


@cache
def _hour_in_postgresql(number: int) -> Recording:
    plain = _hour(number)
    topic = in_postgresql_log(plain.topic)
    return Recording(topic, _WINDOW, tables_in_postgresql(topic, plain.tables))


@cache
def _hour_in_avro(number: int) -> Recording:
    plain = _hour(number)
    return Recording(in_avro(plain.topic), _WINDOW, plain.tables, DtsAvro(schema_file()))


@cache
def _hour_in_json(number: int) -> Recording:
    plain = _hour(number)
    return Recording(in_json(plain.topic), _WINDOW, plain.tables, DtsJson())


@cache
def _whole() -> Topic:
    return shop()


def table(report: Report) -> Iterator[str]:
    """For people: what became of the faults of each kind."""
    names = ("messages", "faults", "harmless", "found", "located", "not_knowable", "missed")
    yield "kind".ljust(12) + "".join(name.replace("_", " ").rjust(14) for name in names)
    for kind in (kind for kind in _KINDS if kind in report.kinds):
        seen = report.kinds[kind]
        yield kind.value.ljust(12) + "".join(f"{getattr(seen, name):>14,}" for name in names)
    yield f"{report.messages:,} mutated messages, {report.rows:,} rows; {report.changed_rows:,} hold what a flip made of a value"
