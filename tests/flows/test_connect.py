"""A warm server: the flows give the same tables over Spark Connect, and the server ends when it should."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.flows.harness import Bench, Harness
from tests.flows.over_connect import NAME, location

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.more]


def listens(address: str) -> bool:
    host, _, port = address.removeprefix("sc://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_tables_are_the_same_over_spark_connect(
    bank_capture: Path, rectangle: Harness, bench: Bench, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.over_connect", str(tmp_path), str(bank_capture)],
        cwd=ROOT, capture_output=True, text=True, timeout=1000, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["cores"] == 2
    assert said["small"] > 0
    assert said["shared"] > 0
    assert not listens(said["address"]), "it has ended with its block"
    other = Bench(bench.session, location(tmp_path), tmp_path, "connect").open(bank_capture, name=NAME)
    found, expected = other.everything(), rectangle.everything()
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name] == expected[name], name


def test_a_server_says_its_address_refuses_a_taken_port_and_ends_on_a_signal(tmp_path: Path) -> None:
    config = tmp_path / "pipeline.yaml"
    subscription = {
        "format": "dts-protobuf",
        "source": {"capture": {"path": "./none", "complete": True}},
        "partitions": 1,
        "window": {"every": "1h", "start": "2026-01-05T00:00Z"},
    }
    config.write_text(json.dumps({"lake": {"warehouse": "./lake"}, "subscriptions": {"any": subscription}}))
    command = [sys.executable, "-m", "dts_assets", "spark-server", "--config", str(config), "--port"]
    with subprocess.Popen(
        [*command, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ)
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            assert listens(address)
            taken = subprocess.run(
                [*command, address.rpartition(":")[2]], capture_output=True, text=True, timeout=60, check=False
            )
            assert taken.returncode == 13
            assert "in use" in taken.stderr
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()
    deadline = time.monotonic() + 10
    while listens(address) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not listens(address)
