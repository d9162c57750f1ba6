"""Small captures of several formats, and the configurations of the lakes that are made from them.

Everything in them follows from fixed seeds, so that two codes get equal messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from tests.flows.altered_source import Altered
from tests.flows.canal_task import Canal
from tests.flows.drs_task import DrsTask
from tests.flows.history import PARTITIONS, bank_history, border
from tests.flows.redelivery import again
from tests.flows.short import LANES, SECOND
from tests.flows.source import Message
from tests.flows.test_merged_tables import Shards, shards_of
from tests.shop_example import ROOT
from tests.wire.scenarios import Scenario, scenarios

NAME = "subscription"
"""The name of each subscription, which is alone in its lake."""

LAYERS: Mapping[str, Any] = {"history": ["*"], "sql": {"tables": ["*"]}}
"""All layers of all tables."""

TWO_WAYS: Mapping[str, Any] = {"partitions": LANES}

ENVIRONMENT: Mapping[str, str] = {"TESTS_ROW_KEY": "a key that nobody guesses"}
"""The variables that configurations name: keys of rules may not stand in a file."""

RULES: Mapping[str, Any] = {
    "columns": {
        "bank.accounts.owner": {"hash": {"key": "${TESTS_ROW_KEY}"}},
        "bank.goods.b": {"mask": "***"},
        "bank.goods.j": "drop",
        "bank.journal.line": {"tokenize": {"key": "${TESTS_ROW_KEY}", "pattern": "te|O", "keep_last": 1}},
    },
    "rows": {"bank.accounts": "balance >= 0", "bank.seats": "seat <> 3"},
    "deletes": {"bank.seats": "soft"},
    "rename": {"bank.accounts": "sales.clients"},
    "types": {"bank.goods.sku": "string"},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A capture in pieces, and the settings of a subscription to it.

    Files of ``extra`` are written beside the configuration. A case of several pieces has windows that are read while they are
    open: the capture is not complete, and its last piece leaves a window open.
    """

    pieces: tuple[tuple[Message, ...], ...]
    settings: Mapping[str, Any]
    capture: Path | None = None
    extra: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """True if windows are read while they are open."""
        return len(self.pieces) > 1


def in_pieces(messages: Sequence[Message], *cuts: timedelta) -> tuple[tuple[Message, ...], ...]:
    """Messages in pieces, each of which ends at a time after the first border."""
    ends = [border(0) + cut for cut in cuts]
    ordered = sorted(messages, key=lambda one: (one.time, one.partition, one.offset))
    numbers = [sum(one.time >= end for end in ends) for one in ordered]
    return tuple(
        tuple(one for one, place in zip(ordered, numbers, strict=True) if place == number)
        for number in range(len(cuts) + 1)
    )


MIDDLE = timedelta(minutes=14)
"""The time at which pieces end: two windows have closed or are about to, and the second is open."""


@cache
def bank() -> tuple[Message, ...]:
    """A bank whose task reads a part of the binlog again."""
    history = bank_history(5, transactions=30, long_set=True)
    return tuple(again(history.source.messages, history.source.changes, 5, late=border(2) + 180 * SECOND).messages)


def _bank_in_pieces() -> Case:
    return Case(in_pieces(bank(), MIDDLE), {"format": "dts-protobuf", "partitions": PARTITIONS, **LAYERS})


def _ruled() -> Case:
    return Case((bank(),), {"format": "dts-protobuf", "partitions": PARTITIONS, **LAYERS, **RULES})


def _altered() -> Case:
    """A table whose columns come, go and get other names, with a policy that keeps dropped columns."""
    altered = Altered(3)
    for window in range(3):
        for number in range(9):
            altered.work(border(window) + (number + 2) * 10 * SECOND)
        altered.source.checkpoint(border(window) + 500 * SECOND)
    settings = {**TWO_WAYS, "format": "dts-protobuf", "schema_changes": {"*": "keep"}, **LAYERS}
    return Case(in_pieces(altered.source.messages, MIDDLE), settings)


def _frozen() -> Case:
    return Case(
        (tuple(one for piece in _altered().pieces for one in piece),),
        {**TWO_WAYS, "format": "dts-protobuf", "schema_changes": {"*": "freeze"}, "sql": {"tables": ["*"]}},
    )


def _merged() -> Case:
    """Shards with partial updates, TRUNCATE and DROP that become one table."""
    shards = Shards(shards_of(2, 2), Random(11))
    shards.live(3, 25)
    settings = {**TWO_WAYS, "format": "dts-protobuf", "merge": {"shop.orders": ["shop_*.orders_*"]}, "history": ["*"]}
    return Case((tuple(shards.source.messages),), settings)


def _drs_task(form: str) -> list[Message]:
    """A task of DRS that sends messages again, and is made anew."""
    task = DrsTask(4, form=form)
    task.work(border(0) + 5 * SECOND, 25)
    task.work(border(1) + 5 * SECOND, 25)
    task.resume(border(2) + 5 * SECOND, 15)
    task.begin_anew(border(2) + 400 * SECOND)
    task.work(border(2) + 410 * SECOND, 10)
    return task.messages


def _drs_json_c() -> Case:
    pieces = in_pieces(_drs_task("drs-json-c"), timedelta(seconds=640))
    return Case(pieces, {**TWO_WAYS, "format": "drs-json-c", **LAYERS})


def _canal() -> Case:
    canal = Canal(4)
    for window in range(3):
        canal.work(border(window) + 5 * SECOND, 24)
    canal.restart(border(2) + 100 * SECOND, 20)
    pieces = in_pieces(canal.messages, timedelta(seconds=608))
    return Case(pieces, {**TWO_WAYS, "format": "canal-json", **LAYERS})


def _documents() -> Case:
    """A collection of documents that are inserted, replaced, updated and deleted."""
    said = [
        ("INSERT", "insert", {"value": '{"_id": 1, "a": {"n": NumberLong(5)}, "tags": ["x"]}'}),
        ("INSERT", "insert", {"value": '{"_id": "1", "at": ISODate("2026-03-01T00:00:00Z")}'}),
        ("UPDATE", "replace", {"value": '{"_id": 1, "a": [1, 2]}', "where": '{"_id": 1}'}),
        ("UPDATE", "update", {"value": '{"$set": {"a.0": 7.5, "b.c": true}}', "where": '{"_id": 1}'}),
        ("DELETE", "doc", {"value": '{"_id": "1"}'}),
    ]
    messages = []
    for number, (operation, record, fields) in enumerate(said, 1):
        at = border(0) + number * 300 * SECOND
        stamp = int(at.timestamp())
        body = {
            "id": number, "op": operation, "dbType": "MongoDB", "db": "shop", "coll": "orders", "where": None, "es": 1,
            "recordType": record, "extra": record, "ts": stamp * 1000, "clusterTime": f"{stamp}:{number}", **fields,
        }  # fmt: skip
        messages.append(Message(0, number - 1, at, json.dumps(body).encode(), number))
    settings = {"format": "drs-json", "partitions": 1, "history": ["*"]}
    return Case((tuple(messages),), settings)


def _shop() -> Case:
    """The beginning of the example."""
    names = ("type_gallery", "documents", "order_items", "customers")
    settings = {
        "format": "dts-protobuf", "partitions": 4, "tables": {"include": [f"shopdb.{name}" for name in names]},
        "window": {"every": "20m", "start": "2026-01-05T00:00Z", "end": "2026-01-05T00:40Z"}, "history": ["shopdb.customers"],
    }  # fmt: skip
    return Case(((),), settings, capture=ROOT / "examples" / "shop")


def _of_scenarios(form: str) -> Case:
    """The messages of the scenarios of a format, each scenario in a Kafka partition of its own.

    They have the schema that most of them are read with, and one time zone: what is right is tested elsewhere.
    """
    groups: dict[tuple[Any, ...], list[Scenario]] = {}
    for one in scenarios():
        if one.folder.parent.name == form:
            groups.setdefault((one.settings.schema, one.settings.fields), []).append(one)
    (schema, _), chosen = max(groups.items(), key=lambda pair: len(pair[1]))
    assert chosen, f"tests/data has no scenario of {form}"
    messages = [
        Message(lane, row["offset"], border(0) + lane * SECOND, row["value"], row["offset"])
        for lane, one in enumerate(chosen)
        for row in one.messages().to_pylist()
    ]
    window = {"every": "10m", "start": border(0).isoformat(), "end": border(1).isoformat()}
    settings: dict[str, Any] = {"format": form, "partitions": len(chosen), "window": window}
    extra = {} if schema is None else {"own.schema": schema}
    return Case((tuple(messages),), {**settings, **({"schema": "own.schema"} if extra else {})}, extra=extra)


CASES: Mapping[str, Callable[[], Case]] = {
    "shop": _shop,
    "bank": _bank_in_pieces,
    "ruled": _ruled,
    "altered": _altered,
    "frozen": _frozen,
    "merged": _merged,
    "drs-json-c": _drs_json_c,
    "canal": _canal,
    "documents": _documents,
    **{
        f"scenarios of {form}": partial(_of_scenarios, form)
        for form in ("canal-json", "drs-avro", "drs-json", "drs-json-c", "dts-avro", "dts-json", "dts-protobuf")
    },
}
