"""What ``dts-assets run`` says where a statement changes the column of a layout, and what lets the table go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from tests.flows.history import START, border
from tests.flows.laid_out_source import CONVERSIONS
from tests.flows.short import LANES
from tests.flows.source import write_capture
from tests.shop_example import shop_of

CONFIG = """\
lake: {{warehouse: {folder}/lake}}
subscriptions:
  shop:
    format: dts-protobuf
    source: {{capture: {folder}/capture}}
    partitions: {lanes}
    window: {{every: 10m, start: "{start}", end: "{end}"}}
    layout: {{"*.items": {layout}}}
"""


def written(folder: Path, layout: str) -> Path:
    path = folder / "pipeline.yaml"
    times = {"start": START.isoformat(), "end": border(3).isoformat()}
    path.write_text(CONFIG.format(folder=folder, lanes=LANES, layout=layout, **times), encoding="utf-8")
    return path


def called(config: Path, *arguments: str) -> Result:
    home = {"DAGSTER_HOME": str(config.parent / "home"), "COLUMNS": "400"}
    return CliRunner().invoke(cli, [*arguments, "--config", str(config)], env=home)


@pytest.mark.more
def test_a_run_names_the_layout_that_does_not_take_the_new_type(tmp_path: Path) -> None:
    write_capture(tmp_path / "capture", CONVERSIONS["clock-text"].source().source.messages)
    (tmp_path / "home").mkdir()
    config = written(tmp_path, "{partition: [days(c)]}")
    for window in range(3):
        shop_of(config).all(window)
    done = called(config, "run")
    assert done.exit_code == 3, done.output
    assert (
        "its layout asks for day of c, which became the type string; change layout in the configuration" in done.output
    )
    config = written(tmp_path, "{partition: ['truncate(7, c)'], sort: [c]}")
    assert called(config, "tables", "resume", "bank.items").exit_code == 0
    shop_of(config).settle()
    done = called(config, "run")
    assert done.exit_code == 0, done.output


@pytest.mark.more
def test_a_run_goes_on_where_the_layout_takes_the_new_type(tmp_path: Path) -> None:
    write_capture(tmp_path / "capture", CONVERSIONS["int-text"].source().source.messages)
    (tmp_path / "home").mkdir()
    config = written(tmp_path, "{partition: ['truncate(7, c)'], sort: [c]}")
    for window in range(3):
        shop_of(config).all(window)
    shop_of(config).settle()
    done = called(config, "run")
    assert done.exit_code == 0, done.output
