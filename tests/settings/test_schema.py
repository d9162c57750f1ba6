"""The JSON Schema for editors, and durations as they are written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.settings import Settings, json_schema
from dts_assets.settings.values import duration_of, duration_text


class TestDurations:
    @given(st.integers(0, 10**6), st.sampled_from("smhd"))
    def test_durations_survive_being_written(self, number: int, unit: str) -> None:
        duration = duration_of(f"{number}{unit}")
        assert duration_of(duration_text(duration)) == duration


class TestTheSchemaForEditors:
    def test_it_names_every_key_and_shows_defaults_as_they_are_written(self) -> None:
        schema = json_schema()
        shop = schema["$defs"]["Subscription"]["properties"]
        assert set(shop) == {
            "format", "schema", "framing", "avro", "strict_rules",
            "source", "partitions", "window", "consistency", "epoch", "retention", "message_retention", "source_time_zone",
            "maintenance",
            "tables", "rename", "merge", "history", "history_retention", "deletes", "schema_changes", "audit_columns", "layout",
            "cut_tags",
            "sql", "types", "type_mapping", "unchanged_value", "documents", "flatten",
            "columns", "rows", "verify", "bootstrap", "on_incomplete", "automation",
        }  # fmt: skip
        assert shop["retention"]["default"] == "24h"
        assert all(part.get("description") for part in shop.values())
        assert set(schema["properties"]) == set(Settings.model_fields)
        json.dumps(schema)

    def test_a_bare_capture_path_is_allowed(self) -> None:
        capture = json_schema()["$defs"]["Source"]["properties"]["capture"]
        assert {"type": "string"} in capture["anyOf"]
