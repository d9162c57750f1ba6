"""Asking where a group stands while its broker goes away and comes back: the library's own request for it kills the process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dts_emulator.kafka.private_broker import Broker

pytestmark = pytest.mark.kafka

ASKING = """
import json, sys, time
from dts_assets.errors.sources import BrokerError
from dts_assets.sources.kafka_place import KafkaPlace
from dts_assets.sources.kafka_group import GroupOffsets

servers, topic, config = json.loads(sys.argv[1])
group = GroupOffsets(KafkaPlace(servers, (topic,), 1, "restarted", tuple(config.items())))
group.commit({0: 5})
said = [group.committed()]
print("asking", flush=True)
least, deadline = time.monotonic() + 12, time.monotonic() + 120  # a broker takes its time to start on a busy machine
while time.monotonic() < least or (said[-1] != {0: 5} and time.monotonic() < deadline):
    try:
        said.append(group.committed())
    except BrokerError as error:
        said.append(type(error).__name__)
    time.sleep(0.05)
print(json.dumps(said))
"""


@pytest.mark.long
def test_a_broker_that_restarts_is_survived(kafka_broker: Broker) -> None:
    kafka_broker.create_topic("group-restarted", 1)
    config = kafka_broker.client_config()
    told = json.dumps([config.pop("bootstrap.servers"), "group-restarted", config])
    command = [sys.executable, "-W", "ignore", "-c", ASKING, told]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "asking\n"
        time.sleep(0.3)
        kafka_broker.stop()
        kafka_broker.start()
        said = json.loads(child.stdout.read())
    assert child.returncode == 0
    assert said[0] == said[-1] == {"0": 5}
