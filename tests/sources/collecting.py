"""A client that is given up while it waits for an answer, and freed by a collection in the thread in which the answer comes.

``python -m tests.sources.collecting`` prints how many objects were freed there.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import Any

from dts_assets.errors.sources import BrokerError
from dts_assets.sources import kafka_answers, kafka_client
from dts_assets.sources.kafka_errors import ConnectionErrors
from dts_assets.sources.kafka_place import KafkaPlace

_SECONDS = 1.5
_freed: list[int] = []
_heard: set[int] = set()


def given_up(self: ConnectionErrors, since: float) -> BrokerError | None:
    """The verdict of a fault that is known before the answer comes, as that of a wrong password is."""
    return self.unreachable(_SECONDS, since) if time.monotonic() - since > _SECONDS / 5 else None


def collecting(answers: Iterable[Future[Any]], timeout: float) -> Any:
    """Wait for answers, each of which has garbage collected in the thread in which it comes."""
    answers = list(answers)
    for answer in answers:
        if id(answer) not in _heard:
            _heard.add(id(answer))
            answer.add_done_callback(lambda _: _freed.append(gc.collect()))
    return wait(answers, timeout)


def ask() -> None:
    """Ask a broker that is not there, and leave the error, and with it the client, to the collector."""
    try:
        kafka_client.client_of(KafkaPlace("127.0.0.1:1", ("nothing",), 1)).layout()
    except BrokerError as error:
        error.args = (*error.args, error)


def main() -> None:
    """Run the case."""
    gc.disable()
    kafka_answers.ANSWER_SECONDS = _SECONDS
    ConnectionErrors.verdict = given_up  # type: ignore[method-assign]
    kafka_client.wait = collecting  # type: ignore[assignment, attr-defined]
    ask()
    assert not _freed, "the answer came before the client was given up"
    while not _freed:
        time.sleep(0.05)
    sys.stdout.write(f"{sum(_freed)} objects were freed\n")


if __name__ == "__main__":
    main()
