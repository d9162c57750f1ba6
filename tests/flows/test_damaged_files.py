"""A damaged file of one table lets this table stand still; one of what all tables need ends the run, with the file's name.

The command that the sentence names brings the content back.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.errors.damage import DamagedFileError
from dts_assets.flows.file_check import check_files
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.pauses import paused_here, resume_tables
from dts_assets.flows.rebuild import RebuildFrom, rebuild_tables
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.model.maintenance import Step
from dts_assets.model.spans import partition_of_key
from dts_assets.model.tables import TableId
from dts_assets.planning import row_removals
from dts_assets.store import catalog as catalogs
from dts_assets.store import ledger_files, other_tables
from tests.flows.damaged import DAMAGES
from tests.flows.harness import Harness, settle_open
from tests.flows.in_process import bench_in_process
from tests.flows.short import items, open_short, three_windows
from tests.flows.source import write_capture

ONE, TWO = TableId("bank", "", "one"), TableId("bank", "", "two")
LAYERS = ("changelog", "snapshot", "history")
KINDS = ("rows", "manifest", "manifest list", "metadata")


def opened(folder: Path, **settings: Any) -> Harness:
    source = three_windows(items("one"), items("two"))
    bench = bench_in_process(folder, "shop")
    return open_short(bench, folder / "capture", source.messages, name="shop", history=["*"], **settings)


def fresh(harness: Harness) -> Harness:
    """The subscription as a new process opens it."""
    ledger_files.forget()
    catalogs._metadata.cache_clear()
    catalogs._WRITTEN.clear()
    other_tables._KNOWN.clear()
    harness.pipeline = type(harness.pipeline)(
        harness.pipeline.settings, harness.pipeline.source, type(harness.pipeline.lake)(harness.pipeline.lake.location)
    )
    return harness


def file_of(harness: Harness, path: tuple[str, ...], kind: str) -> Path:
    """The file of a kind that the present version of a table names; of manifests and rows the last one."""
    table = harness.pipeline.lake.table(harness.pipeline.path(*path))
    assert table is not None
    head = table.current_snapshot()
    assert head is not None
    manifests = head.manifests(table.io)
    rows = [entry.data_file.file_path for one in manifests for entry in one.fetch_manifest_entry(table.io)]
    found = {
        "rows": rows[-1], "manifest": manifests[-1].manifest_path, "manifest list": head.manifest_list,
        "metadata": table.metadata_location,
    }[kind]  # fmt: skip
    return Path(found.removeprefix("file://"))


def shown(harness: Harness, path: tuple[str, ...]) -> list[str]:
    return sorted(map(str, harness.rows(*path)))


@pytest.mark.more
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_damaged_file_pauses_its_table_alone_and_the_named_command_restores_it(
    tmp_path: Path, layer: str, kind: str, damage: str
) -> None:
    whole = opened(tmp_path / "whole")
    whole.all(0)
    whole.settle()
    harness = opened(tmp_path / "damaged")
    harness.all(0)
    file = file_of(harness, (layer, *ONE.path), kind)
    DAMAGES[damage](file)
    check = check_files(fresh(harness).pipeline)
    assert [path.removeprefix("file://") for path in check.damaged] == [str(file)]

    fresh(harness).all(1, 2)
    paused = paused_here(harness.pipeline)
    assert set(paused) <= {ONE}
    assert shown(harness, ("snapshot", *TWO.path)) == shown(whole, ("snapshot", *TWO.path))
    if paused:
        assert str(file) in paused[ONE].reason
        resume_tables(harness.pipeline, [ONE])
    if kind == "rows":
        start = RebuildFrom.ENTRIES if layer == "changelog" else RebuildFrom.CHANGELOG
        rebuild_tables(fresh(harness).pipeline, [ONE], start, spark=harness._spark, progress=harness.lines.append)
    else:
        remove_tables(fresh(harness).pipeline, [ONE], progress=harness.lines.append)
        add_tables(harness.pipeline, [ONE], progress=harness.lines.append)
    fresh(harness).settle()
    assert not paused_here(harness.pipeline)
    assert not check_files(fresh(harness).pipeline).damaged
    for one in LAYERS:
        assert shown(harness, (one, *ONE.path)) == shown(whole, (one, *ONE.path))


@pytest.mark.more
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_list_of_deleted_rows_pauses_its_table_and_the_named_command_restores_it(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages come bit by bit, so that rows of files that stand are deleted by lists."""
    monkeypatch.setattr(row_removals, "DELETE_FILE_BYTES", 0)
    monkeypatch.setattr(row_removals, "DELETED_ROW_BYTES", 0)
    monkeypatch.setattr(row_removals, "MOST_DELETED", 1.1)
    source = three_windows(items("one"), items("two"))
    whole = open_short(bench_in_process(tmp_path / "whole", "shop"), tmp_path / "all", source.messages, name="shop")
    whole.settle()
    capture = tmp_path / "capture"
    harness = open_short(
        bench_in_process(tmp_path / "damaged", "shop"), capture, [], name="shop", complete=False,
        window={"live": True, "end": None},
    )  # fmt: skip
    messages = sorted(source.messages, key=lambda one: (one.time, one.partition, one.offset))
    bits = [messages[at : at + 6] for at in range(0, len(messages), 6)]
    while not (deletes := delete_files(harness)):
        write_capture(capture, bits[0], name=f"left{len(bits)}")
        del bits[0]
        settle_open(harness, rounds=8)
    DAMAGES[damage](deletes[-1])
    (error,) = check_files(fresh(harness).pipeline).damaged.values()
    assert (error.path.removeprefix("file://"), error.owner.table) == (str(deletes[-1]), str(ONE))
    assert f"`dts-assets tables rebuild {ONE} --subscription shop` makes its rows anew" in str(error)

    write_capture(capture, [one for bit in bits for one in bit], name="last")
    settle_open(fresh(harness), rounds=8)
    paused = paused_here(harness.pipeline)
    assert list(paused) == [ONE]
    assert str(deletes[-1]) in paused[ONE].reason
    assert shown(harness, ("snapshot", *TWO.path)) == shown(whole, ("snapshot", *TWO.path))
    resume_tables(harness.pipeline, [ONE])
    pipeline = fresh(harness).pipeline
    rebuild_tables(pipeline, [ONE], RebuildFrom.CHANGELOG, spark=harness._spark, progress=harness.lines.append)
    settle_open(fresh(harness), rounds=8)
    assert not check_files(fresh(harness).pipeline).damaged
    assert shown(harness, ("snapshot", *ONE.path)) == shown(whole, ("snapshot", *ONE.path))


def delete_files(harness: Harness) -> list[Path]:
    """The delete files of the snapshot of the first table."""
    table = harness.pipeline.lake.table(harness.pipeline.path("snapshot", *ONE.path))
    found = [] if table is None else table.inspect.delete_files()["file_path"].to_pylist()
    return [Path(one.removeprefix("file://")) for one in found]


@pytest.mark.more
def test_maintenance_goes_on_beside_a_table_that_cannot_be_opened(tmp_path: Path) -> None:
    """No file goes meanwhile, since nobody knows what the table names; each other table is looked at."""
    harness = opened(tmp_path, maintenance={"keep_versions": 1})
    for number in range(3):
        harness.all(number)
    DAMAGES["cut"](file_of(harness, ("snapshot", *ONE.path), "metadata"))
    later = datetime.now(UTC) + timedelta(days=9)
    steps = (Step.EXPIRY, Step.ORPHANS)
    done = maintain(fresh(harness).pipeline, only=steps, spark=harness._spark, progress=harness.lines.append, now=later)
    for report in done:
        assert report.failed
        assert all(
            re.match(r"shop\.\w+\.bank\.one( and \d tables more)?: .*metadata", line) for line in report.failed
        ), report.failed
    assert sum("old versions stay, because another table may name their files" in line for line in harness.lines) == 1


@pytest.mark.more
@pytest.mark.parametrize("name", ["raw_envelopes", "entries"])
def test_a_damaged_file_of_all_tables_ends_the_run_and_its_partition_made_again_restores_it(
    tmp_path: Path, name: str
) -> None:
    whole = opened(tmp_path / "whole")
    whole.all(0, 1, 2)
    harness = opened(tmp_path / "damaged")
    harness.all(0, 1, 2)
    file = file_of(harness, (name,), "rows")
    DAMAGES["flipped"](file)
    step = fresh(harness).entries if name == "raw_envelopes" else fresh(harness).tables
    with pytest.raises(DamagedFileError) as caught:
        step(0, 1, 2)
    assert (str(file) in str(caught.value), caught.value.exit_code) == (True, 11)
    assert not paused_here(fresh(harness).pipeline)
    (key,) = check_files(harness.pipeline).partitions.values()
    partition, window = partition_of_key(key.partition("|")[0]), key.partition("|")[2]
    (number,) = (n for n in range(3) if harness.pipeline.grid.at(n).key == window)
    if name == "raw_envelopes":
        harness.raw(number, partitions=[partition])
    harness.entries(number, partitions=[partition])
    harness.settle()
    assert not check_files(fresh(harness).pipeline).damaged
    for path in (("snapshot", *ONE.path), ("changelog", *TWO.path)):
        assert shown(harness, path) == shown(whole, path)


@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_of_the_ledger_is_named_and_nothing_restores_it(tmp_path: Path, kind: str) -> None:
    harness = opened(tmp_path / "damaged")
    harness.all(0)
    file = file_of(harness, ("windows",), kind)
    DAMAGES["flipped"](file)
    with pytest.raises(DamagedFileError) as caught:
        fresh(harness).settle()
    assert (str(file) in str(caught.value), "Nothing restores it" in str(caught.value)) == (True, True)
    assert [path.removeprefix("file://") for path in check_files(fresh(harness).pipeline).damaged] == [str(file)]
