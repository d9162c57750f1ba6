"""Which engine decodes, and what it does with the memory of the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dts_assets.wire.dts_protobuf.protobuf_parser import BEST_ENGINE, keep_freed_memory

_WITHOUT_PTARS = """
import sys

sys.modules["ptars"] = None  # importing it fails from now on
from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.formats import wire_format
from tests.dts_messages import entry
from tests.wire.made import sets

wire = wire_format("dts-protobuf")
made = entry(pb.BEGIN)
made.event.beginEvent.transactionId = "42"
print(wire.decoder.split()[0], wire.entries(sets(made)).batch["transaction_id"].to_pylist())
"""

_FAULTS_PER_CALL = """
import resource

from benchmarks import traffic
from dts_assets.wire.dts_protobuf import DtsProtobuf

wire = DtsProtobuf("ptars")
sets = traffic.entry_sets(traffic.tables(1, 5, seed=1), rows=20, size=20 << 20, seed=2)
for _ in range(3):
    wire.entries(sets)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    wire.entries(sets)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 4)
"""


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_without_ptars_protobuf_decodes() -> None:
    assert BEST_ENGINE == "ptars"
    assert _run(_WITHOUT_PTARS) == "protobuf ['42']"


@pytest.mark.skipif(not keep_freed_memory(), reason="only glibc can be told to keep memory")
def test_memory_of_a_chunk_is_used_again_by_the_next_one() -> None:
    pages_of_a_chunk = (20 << 20) // 4096
    assert int(_run(_FAULTS_PER_CALL)) < pages_of_a_chunk // 4
