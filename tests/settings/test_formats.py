"""Formats by the names that packages register: found, loaded, or refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_assets.errors import ConfigErrors, ConfigMistake, WireFormatError
from dts_assets.model.formats import Framing
from dts_assets.settings import Subscription, json_schema, load_settings
from dts_assets.settings.formats import format_class, registered_formats, traits_of
from dts_assets.settings.load import settings_of_text
from tests.made_up_format.place import NAME, SITE_PACKAGES

CONFIGURATION = """\
lake: {{warehouse: ./lake}}
subscriptions:
  shop:
    format: {format}
    source: {{capture: ./capture}}
    partitions: 4
    window: {{every: 1h, start: 2026-01-05T00:00Z}}
"""


def configured(folder: Path, name: str, more: str = "") -> Subscription:
    file = folder / "pipeline.yaml"
    file.write_text(CONFIGURATION.format(format=name) + more)
    return load_settings(file, environment={}).subscriptions["shop"]


def refused(folder: Path, name: str, more: str = "") -> ConfigMistake:
    with pytest.raises(ConfigErrors) as caught:
        configured(folder, name, more)
    (only,) = caught.value.mistakes
    return only


def register(folder: Path, name: str, value: str) -> None:
    """Put a package into a folder that stands for ``site-packages``."""
    facts = folder / "other_house-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: other-house\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[dts_assets.formats]\n{name} = {value}\n")


def test_a_format_is_there_while_its_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NAME not in registered_formats()
    monkeypatch.syspath_prepend(SITE_PACKAGES)
    assert NAME in registered_formats()
    assert traits_of(NAME).kind == "toy"
    monkeypatch.undo()
    assert NAME not in registered_formats()


def test_the_schema_for_editors_lists_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = json_schema()["$defs"]["Subscription"]["properties"]["format"]["enum"]
    assert names == list(registered_formats())


def test_a_schema_file_is_wanted_exactly_where_the_format_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "without a schema file" in refused(tmp_path, "dts-protobuf", "    schema: a.json\n").message
    monkeypatch.syspath_prepend(SITE_PACKAGES)
    found = refused(tmp_path, NAME)
    assert (found.path, found.message) == (
        "subscriptions.shop.schema",
        "messages in toy-lines are read with a schema, and none is named",
    )
    subscription = configured(tmp_path, NAME, "    schema: a.json\n")
    with pytest.raises(
        WireFormatError, match=r"its schema file .*a\.json cannot be read \(No such file or directory\)"
    ):
        _ = subscription.format_settings
    (tmp_path / "a.json").write_bytes(b"{}")
    assert subscription.format_settings.schema == b"{}"


def test_frames_and_names_of_fields_are_for_the_format_whose_schema_is_open(tmp_path: Path) -> None:
    avro = "    schema: a.json\n    framing: confluent\n    avro: {operation: header.op, id: number}\n"
    subscription = configured(tmp_path, "drs-avro", avro)
    (tmp_path / "a.json").write_bytes(b"{}")
    settings = subscription.format_settings
    assert (settings.framing, settings.fields) == (
        Framing.CONFLUENT,
        (("id", "number"), ("operation", "header.op")),
    )
    assert configured(tmp_path, "drs-avro", "    schema: a.json\n").format_settings.framing is Framing.AUTO
    for key in ("framing: raw", "avro: {id: number}"):
        found = refused(tmp_path, "dts-protobuf", f"    {key}\n")
        assert (found.path, found.fix) == (f"subscriptions.shop.{key.partition(':')[0]}", "remove the key")
        assert "of messages in dts-protobuf cannot be chosen" in found.message
    found = refused(tmp_path, "drs-avro", "    schema: a.json\n    avro: {operatoin: op}\n")
    assert (found.path, found.message, found.fix) == (
        "subscriptions.shop.avro.operatoin",
        "no such role of a field",
        "did you mean operation?",
    )
    found = refused(tmp_path, "drs-avro", "    schema: a.json\n    framing: registry\n")
    assert found.fix == "write one of auto, raw, confluent, container"
    found = refused(tmp_path, "drs-avro")
    assert found.message == "messages in drs-avro are read with a schema, and none is named"


def test_a_missing_format_shows_what_there_is(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(CONFIGURATION.replace("    format: {format}\n", "").format())
    with pytest.raises(
        ConfigErrors,
        match="write format: and one of canal-json, drs-avro, drs-json, drs-json-c, dts-avro, dts-json, dts-protobuf",
    ):
        load_settings(file, environment={})


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path / "site", "ours", "no_such_module:Format")
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(WireFormatError, match="the package other-house registers it as no_such_module:Format"):
        format_class("ours")
    found = refused(tmp_path, "ours")
    assert (found.path, found.fix) == ("subscriptions.shop.format", "install that package again")
    assert "other-house" in found.message


@pytest.mark.parametrize(
    ("name", "zone"), [("canal-json", "Asia/Shanghai"), ("drs-json-c", "+08:00"), ("dts-json", "+08:00")]
)
def test_a_format_says_the_zone_of_clocks_unless_the_file_does(name: str, zone: str, tmp_path: Path) -> None:
    text = CONFIGURATION.format(format=name)
    for more, expected in (("", zone), ("    source_time_zone: Europe/Berlin\n", "Europe/Berlin")):
        shop = settings_of_text(text + more, name="pipeline.yaml", folder=tmp_path).subscriptions["shop"]
        assert (shop.source_time_zone, shop.format_settings.source_time_zone) == (expected, expected)
