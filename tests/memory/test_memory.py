"""Memory is bounded by the chunk, whatever arrives: each case has its peak measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.memory.hostile_sizes import CASES

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[2]
MOST = 120
"""Megabytes, of which a message of a megabyte may take this many at the most; 300 to 560 were taken before."""

MOST_OF_A_CALL = 300
"""Megabytes of as many cells as a call decodes; there were no bounds before."""

QUICK = {"DRS: 64 KB of empty rows", "DTS: 1 MB of empty entries", "DTS: rows of one column of a table of 4,000",
         "Avro: messages of 16,000 empty values"}  # fmt: skip
FOUND = {
    "nothing": (2, 0),
    "DRS: 64 KB of empty rows": (2, 1),
    "DRS: 64 KB of empty rows of 4,000 columns": (2, 1),
    "DRS: many messages of empty rows": (2 + 40 * 1024, 0),
    "DRS: 64 KB of empty old rows": (2, 1),
    "DRS: rows of one column of a table of 4,000": (2, 1),
    "Canal: many numbers that stand for long texts": (2, 1),
    "DTS: 1 MB of empty entries": (1, 1),
    "DTS: 8 MB of empty entries": (1, 8),
    "DTS: 1 MB of empty entries in small sets": (1, 64 * 8192),
    "DTS: 1 MB of empty rows": (1, 1),
    "DTS: rows of one column of a table of 4,000": (1, 1),
    "Avro: 1 MB of empty values": (2, 1),
    "Avro: messages of 16,000 empty values": (2, 40),
    "Avro: rows of 4,000 columns": (62, 0),
    "DTS JSON: 1 MB of nulls": (2, 1),
    "DTS JSON: many messages of nulls": (2, 40),
    "DTS JSON: rows of 4,000 columns without values": (62, 0),
    "DTS JSON: objects without values": (62, 0),
    "DRS Avro: empty rows of 4,000 columns": (2, 1),
    "DRS Avro: many messages of empty rows": (2 + 40 * 1024, 0),
    "DRS Avro: a container of zeros": (3, 1),
    "DRS Avro: many containers of zeros": (3, 40),
}
"""The changes of the good messages beside, and the rows of quarantine. Equal rows of a DTS topic are copies."""


def test_every_case_is_looked_at() -> None:
    assert FOUND.keys() == CASES.keys()
    assert FOUND.keys() > QUICK


@pytest.mark.parametrize(
    "case", [pytest.param(one, marks=() if one in QUICK else pytest.mark.long) for one in FOUND if one != "nothing"]
)
def test_a_hostile_message_takes_little_memory_and_stops_no_other(case: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.memory.hostile_sizes", case],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found = json.loads(ran.stdout)
    assert (found["changes"], found["rejections"]) == FOUND[case]
    assert found["peak"] < (MOST_OF_A_CALL if "many" in case else MOST)
