"""Collections of documents, made by rules of the vendor's page, end equal to the model that made their messages."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from bson import json_util

from dts_assets.model.tables import TableId
from dts_emulator.drs.generated_documents import COMMANDS, GeneratedDocuments
from dts_emulator.messages.capture_files import write_capture
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.tiers import times

pytestmark = pytest.mark.more

START, HOUR = datetime(2026, 1, 5, tzinfo=UTC), timedelta(hours=1)


def opened(source: GeneratedDocuments, count: int, folder: Path, **options: Any) -> tuple[Harness, list[int]]:
    """A subscription of a generated source, and the numbers of its windows."""
    write_capture(source.messages(count), folder / "capture", topic="one")
    windows = [*range(source.number // 60 + 1)]
    harness = bench_in_process(folder, "dds").open(
        folder / "capture", format="drs-json", partitions=source.partitions, tables={"include": ["*"]},
        window={"every": HOUR, "start": START, "end": START + len(windows) * HOUR}, **options,
    )  # fmt: skip
    return harness, windows


def relaxed(document: Any) -> str:
    """A document as another library writes it in relaxed form, with the order of its fields."""
    options = json_util.JSONOptions(json_mode=json_util.JSONMode.RELAXED, tz_aware=True)
    return ordered(json_util.dumps(json_util.loads(json.dumps(document)), json_options=options))


def ordered(text: str) -> str:
    """A text of JSON, equal for numbers that are equal."""
    return repr(json.loads(text, object_pairs_hook=list))


def faults(harness: Harness, source: GeneratedDocuments) -> list[str]:
    """The differences between the snapshots of collections and the documents that the messages tell."""
    found = [f"paused: {row['paused']}" for row in harness.rows("cuts") if row.get("paused")]
    for place in source.collections:
        table = TableId(place[0], "", place[1])
        rows = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", table))
        standing = [row for row in (rows.to_pylist() if rows is not None else ()) if row.get("_deleted_at") is None]
        theirs = Counter(relaxed(one) for one in source.known(place))
        versions = harness.pipeline.lake.scan(harness.pipeline.table_path("history", table))
        open_ones = standing if versions is None else [row for row in versions.to_pylist() if row["_valid_to"] is None]
        for some in (standing, open_ones):
            mine = Counter(ordered(row["document"]) for row in some)
            if mine != theirs:
                found.append(f"{table}: more {mine - theirs}, less {theirs - mine}")
    return found


@pytest.mark.parametrize("seed", range(times(1, 40)))
def test_snapshots_end_equal_to_the_model_in_any_order_of_windows(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    source = GeneratedDocuments(random, partitions=2 if seed % 2 else 1, commands=COMMANDS if seed % 3 else ())
    shown = {"deletes": "soft"} if seed % 5 == 4 else {"history": ["*"]} if seed % 2 else {}
    harness, windows = opened(source, times(200, 800), tmp_path, **shown)
    random.shuffle(windows)
    for number in (*windows, windows[0]):
        harness.all(number)
    harness.settle()
    assert harness.rows("quarantine") == []
    assert faults(harness, source) == []
