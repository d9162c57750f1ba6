"""docs/configuration.md has every key of the configuration file with its default, and no other key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dts_assets.settings import json_schema

HOUSE = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| .+ \|$", (HOUSE / "docs" / "configuration.md").read_text("utf-8"), re.M)
DOCUMENTED = {key: default for cell, default in ROWS for key in re.findall(r"`([a-z_.*]+)`", cell)}
SCHEMA = json_schema()
PASSED_ON = ".*"


def keys_below(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the keys without keys of their own, each with its schema; those of a subscription without its name."""
    models = [node, *node.get("anyOf", ()), node.get("additionalProperties")]
    named = [one["$ref"].rpartition("/")[2] for one in models if isinstance(one, Mapping) and "$ref" in one]
    inner = SCHEMA["$defs"][named[0]] if named else node
    if "properties" not in inner:
        yield ".".join(path), node
    for name, value in inner.get("properties", {}).items():
        yield from keys_below(value, () if name == "subscriptions" else (*path, name))


def parents(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def test_every_key_is_documented_and_no_other_one() -> None:
    keys = dict(keys_below(SCHEMA))
    assert {"window.every", "lake.catalog.type", "source.kafka.config"} <= keys.keys()
    assert {key for key in keys if not DOCUMENTED.keys() & set(parents(key))} == set()
    known = {parent for key in keys for parent in parents(key)}
    assert {key for key in DOCUMENTED if key.removesuffix(PASSED_ON) not in known} == set()


def test_every_default_is_documented() -> None:
    defaults = {key: value["default"] for key, value in keys_below(SCHEMA) if key in DOCUMENTED and "default" in value}
    known = {key: value for key, value in defaults.items() if value is not None and value != []}
    shown = {key: value if isinstance(value, str) else json.dumps(value) for key, value in known.items()}
    assert len(shown) > 10
    assert {key: DOCUMENTED[key] for key, text in shown.items() if DOCUMENTED[key] != f"`{text}`"} == {}
