"""The settings of lakes that docs/catalogs-and-stores.md shows can be used as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dts_assets.errors import ConfigErrors
from dts_assets.settings import load_settings

HOUSE = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"```yaml\n(lake:.*?)```", (HOUSE / "docs" / "catalogs-and-stores.md").read_text("utf-8"), re.DOTALL
)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: yaml.safe_load(block)["lake"]["catalog"]["type"])
def test_a_documented_lake_is_understood(block: str, tmp_path: Path) -> None:
    subscriptions = yaml.safe_load((HOUSE / "pipeline.yaml").read_text("utf-8"))["subscriptions"]
    (tmp_path / "pipeline.yaml").write_text(f"{block}\n{yaml.safe_dump({'subscriptions': subscriptions})}")
    named = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block), "012345")
    lake = load_settings(tmp_path / "pipeline.yaml", environment=named).lake
    assert lake.warehouse == "s3://bucket/lake"
    assert [name for name, value in lake.catalog.properties.items() if value == "012345"] == [
        name for name, value in yaml.safe_load(block)["lake"]["catalog"].items() if "${" in str(value)
    ]


def test_there_are_lakes_in_the_document() -> None:
    assert len(BLOCKS) == 2


@pytest.mark.parametrize(
    "name",
    ["ssl", "ssl.cabundle", "s3.ssl.enabled", "rest.verify", "client.tls.cert", "trust-store", "useSSL", "SSL_VERIFY"],
)
def test_a_setting_of_tls_that_no_engine_has_is_refused(name: str, tmp_path: Path) -> None:
    subscriptions = yaml.safe_load((HOUSE / "pipeline.yaml").read_text("utf-8"))["subscriptions"]
    lake = {"warehouse": "s3://b", "catalog": {"type": "rest", "uri": "https://catalog", name: "true"}}
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"lake": lake, "subscriptions": subscriptions}))
    with pytest.raises(ConfigErrors) as caught:
        load_settings(tmp_path / "pipeline.yaml", environment={})
    (found,) = caught.value.mistakes
    assert found.path == f"lake.catalog.{name}"
    assert "as it is without" in found.message
