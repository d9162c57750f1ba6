"""The offline proof of a database that does everything to its tables: nothing differs, and what no stream tells is named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows.proof import prove
from dts_assets.flows.scratch_server import Login, ScratchAddress, scratch_server
from dts_assets.wire.ddl.other_parts import Part
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.source.server import Server, private_server
from dts_emulator.tasks.recording import record
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS
from tests.cli.test_statements_replayed import WORK
from tests.flows.in_process import bench_in_process

pytestmark = pytest.mark.database

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def source() -> Iterator[Server]:
    with private_server() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in WORK:
                cursor.execute(statement)
        yield server


@pytest.mark.parametrize(
    ("wire_format", "options", "settings"),
    [
        pytest.param("dts-protobuf", {"partitions": 4}, {}, marks=pytest.mark.more),
        pytest.param("dts-avro", {"partitions": 3}, {}, marks=pytest.mark.long),
        pytest.param(
            "drs-json", {"partitions": 4, "partition_policy": 2, "rows_per_message": 7},
            {"consistency": "window", "source_time_zone": "+00:00"}, marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_nothing_differs_and_foreign_keys_that_change_rows_are_named(
    source: Server, wire_format: str, options: dict[str, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    """The source's own engine follows a foreign key without an event; the scratch server has none, and the lake cannot."""
    vendor = VENDOR_TASKS[wire_format]
    write_capture(record(source, vendor.options(**options)), tmp_path / "capture", topic="t")
    if vendor.schema is not None:
        (tmp_path / "Record.avsc").write_bytes(vendor.schema())
        settings = {**settings, "schema": tmp_path / "Record.avsc"}
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR
    window = {"every": HOUR, "start": start, "end": start + 4 * HOUR}
    harness = bench_in_process(tmp_path, "proof").open(
        tmp_path / "capture", format=wire_format, partitions=options["partitions"], window=window, **settings
    )
    harness.settle()
    with private_server(extra=("--skip-log-bin",)) as scratch:
        address = ScratchAddress(socket=str(scratch.socket))
        with scratch_server(address, Login()) as server:
            proof = prove(harness.pipeline, server)
    assert [str(table) for table, one in proof.tables.items() if not one.equal] == []
    assert len(proof.tables) == 16
    assert proof.exported.parts == {
        Part.CASCADE: 1, Part.INDEX: 1, Part.EXPRESSION: 2, Part.NUMBERS: 2, Part.OPTION: 1,
    }  # fmt: skip
    assert not proof.whole, "the foreign key changes rows at the source"
    assert (proof.replayed.refused, proof.replayed.missed) == (0, 0)
