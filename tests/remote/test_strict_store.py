"""A strict S3 store, and a catalog that vends its keys: what clients are told, and what they are refused without it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dts_assets.store.catalog import LakeLocation
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import TableWriter, read_batches
from dts_assets.store.lake import Lake
from dts_assets.store.open_files import file_io
from dts_assets.store.schemas import RAW_ENVELOPES
from dts_emulator.machine import stores
from dts_emulator.machine.rest_lake import WAREHOUSE, private_rest_lake
from tests.remote.matrix import fetch_servers

pytestmark = pytest.mark.long

PATH = ("shop", "raw_envelopes")
WRITES = """
import sys, json
from pyiceberg.io import load_file_io
with load_file_io(json.loads(sys.argv[1]), "s3://lake/x").new_output("s3://lake/plain").create() as stream:
    stream.write(b"x")
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    fetch_servers({"sqlite+s3"})
    with stores.private_store(tmp_path_factory.mktemp("store"), strict=True) as properties:
        yield properties


def test_a_client_that_nobody_has_told_is_refused_and_ours_is_not(store: Mapping[str, str]) -> None:
    untold = subprocess.run(
        ["env", "-u", "AWS_REQUEST_CHECKSUM_CALCULATION", sys.executable, "-c", WRITES, json.dumps(dict(store))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "HTTP status 400" in untold.stderr
    path = "s3://lake/ours"
    io = file_io(FileStore("shop.t", dict(store)), path)
    with io.new_output(path).create() as stream:
        stream.write(b"hello")
    with io.new_input(path).open() as opened:
        assert opened.read() == b"hello"


def test_it_checks_signatures(store: Mapping[str, str]) -> None:
    forged = FileStore("shop.t", {**store, "s3.secret-access-key": "another"})
    with (
        pytest.raises(OSError, match="SIGNATURE_DOES_NOT_MATCH"),
        file_io(forged, "s3://lake/forged").new_output("s3://lake/forged").create(overwrite=True) as stream,
    ):
        stream.write(b"x")


def test_a_task_writes_and_reads_with_keys_that_the_catalog_vends() -> None:
    fetch_servers({"rest+s3"})
    with private_rest_lake(strict=True, vends=True) as properties:
        assert not stores.KEYS.keys() & properties.keys()
        lake = Lake(LakeLocation(WAREHOUSE, properties))
        lake.ensure(PATH, RAW_ENVELOPES)
        target = pickle.loads(pickle.dumps(lake.target(PATH, "run")))
        assert stores.KEYS.items() <= target.store.properties.items()
        row = {"topic": "t", "partition": 0, "offset": 7, "kafka_partition": 0, "epoch": 0}
        row |= {"window_start": datetime(2026, 1, 5, tzinfo=UTC)}
        empty = dict.fromkeys(target.arrow_schema.names)
        with TableWriter(target) as writer:
            writer.write(pa.RecordBatch.from_pylist([empty | row], target.arrow_schema))
            files = writer.close()
        lake.replace(PATH, {}, files)
        readers = pickle.loads(pickle.dumps(lake.file_store(PATH)))
        (batch,) = read_batches(readers, [file.path for file in lake.data_files(PATH)], ["offset"])
        assert batch.column("offset").to_pylist() == [7]
        lake.discard(PATH, files)
        with pytest.raises(FileNotFoundError):
            next(read_batches(readers, [file.path for file in files], ["offset"]))
