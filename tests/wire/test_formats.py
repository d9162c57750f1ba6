"""Formats as values: made from settings, pickled with a task, with traits and fingerprints that the house asks for."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from dts_assets.model.formats import ChangeOrder, Evidence, FormatSettings
from dts_assets.settings.formats import registered_formats, traits_of
from dts_assets.wire.formats import wire_format
from tests.wire.made import messages
from tests.wire.scenarios import DATA

SHANGHAI = FormatSettings("Asia/Shanghai")
SCHEMA = (DATA / "dts-avro" / "Record.avsc").read_bytes()


def settings_for(name: str, zone: str = "Asia/Shanghai") -> FormatSettings:
    """The settings that a format can be made from."""
    return FormatSettings(zone, schema=SCHEMA if traits_of(name).needs_schema else None)


@pytest.mark.parametrize("name", registered_formats())
def test_a_value_of_no_bytes_is_null_and_no_fault(name: str) -> None:
    fragments = wire_format(name, settings_for(name)).fragments(messages(b"", None, b"x"))
    assert fragments["is_null"].to_pylist() == [True, True, False]
    assert fragments["reason"].to_pylist()[:2] == [None, None]


@pytest.mark.parametrize("name", registered_formats())
def test_a_format_is_a_value_that_travels_with_a_task(name: str) -> None:
    made = wire_format(name, settings_for(name))
    assert pickle.loads(pickle.dumps(made)) == made == wire_format(name, settings_for(name))
    assert hash(made) == hash(wire_format(name, settings_for(name)))
    assert made.traits is traits_of(name)


def test_a_setting_is_in_the_fingerprint_of_what_it_changes() -> None:
    here, there = (wire_format("drs-json-c", FormatSettings(zone)) for zone in ("+00:00", "+08:00"))
    assert here.changes_fingerprint != there.changes_fingerprint
    assert here.entries_fingerprint == there.entries_fingerprint  # times of entries are counted from the epoch
    # Its instants carry their zone; that of wall clocks which are declared to be instants is among the settings of the tables.
    dts = [wire_format("dts-protobuf", settings) for settings in (SHANGHAI, FormatSettings("+00:00"))]
    assert dts[0].changes_fingerprint == dts[1].changes_fingerprint
    assert dts[0].entries_fingerprint == dts[1].entries_fingerprint
    names = registered_formats()
    assert len({wire_format(name, settings_for(name)).entries_fingerprint for name in names}) == len(names)


def test_traits_say_what_each_vendor_gives() -> None:
    dts, drs, avro, canal = map(traits_of, ("dts-protobuf", "drs-json-c", "dts-avro", "canal-json"))
    open_avro, json = traits_of("drs-avro"), traits_of("dts-json")
    assert (json.kind, json.order, json.evidence) == ("json", dts.order, dts.evidence)
    assert (json.rows_apart, json.needs_schema, json.roles) == (True, False, ())
    assert (dts.kind, dts.order, dts.evidence) == ("protobuf", ChangeOrder.BINLOG_POSITION, frozenset(Evidence))
    assert (drs.kind, drs.order, drs.evidence) == ("json", ChangeOrder.MESSAGE_ID, frozenset())
    assert (canal.kind, canal.order, canal.evidence) == ("json", ChangeOrder.ARRIVAL, frozenset())
    assert not dts.needs_schema
    assert not drs.needs_schema
    assert (avro.kind, avro.order, avro.evidence, avro.needs_schema) == ("avro", dts.order, dts.evidence, True)
    assert (open_avro.kind, open_avro.order, open_avro.evidence) == ("avro", drs.order, drs.evidence)
    assert open_avro.needs_schema
    assert (bool(open_avro.roles), dts.roles, drs.roles, avro.roles) == (True, (), (), ())
    assert (dts.rows_apart, drs.rows_apart, avro.rows_apart) == (False, False, True)


def test_nobody_outside_wire_asks_for_a_formats_name() -> None:
    house = Path(__file__).parents[2]
    names = set(registered_formats())
    found = [
        f"{path.relative_to(house)}:{node.lineno}"
        for path in (house / "dts_assets").rglob("*.py")
        if "wire" not in path.relative_to(house).parts
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and (node.value in names or node.value in ("drs-", "dts-"))
    ]
    assert found == []


def test_traits_are_read_without_an_engine() -> None:
    code = (
        "import sys; from dts_assets.settings.formats import registered_formats, traits_of\n"
        "[traits_of(name) for name in registered_formats()]\n"
        "print([name for name in ('pyarrow', 'numpy', 'google.protobuf', 'ptars', 'msgspec') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
