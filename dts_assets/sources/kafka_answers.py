"""Questions to a broker, repeated while their obstacle may pass; each ends within seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError
from tenacity import RetryError, Retrying, before_sleep_log, retry_if_exception, stop_after_delay, wait_random

from dts_assets.errors.sources import BrokerError
from dts_assets.sources.kafka_errors import PASSING, REFUSED_SECONDS, ConnectionErrors, error_of

ANSWER_SECONDS = 5.0
"""The longest time that a question may take."""

_LEAST_SECONDS = 1.0
"""The time that each repetition is given at least; no repetition begins later than that before the end."""

_LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class PassingError(Exception):
    """An answer that may be another one a moment later."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.name())
        self.error = error


def told(error: KafkaError, servers: str, doing: str, what: str) -> PassingError | BrokerError:
    """Return the exception to raise for a broker's answer; see :func:`error_of` for the arguments."""
    return PassingError(error) if error.code() in PASSING else error_of(error, servers, doing, what)


def seconds_left(began: float) -> float:
    """Return the time that an attempt may take, for a question that was first put at ``began`` (monotonic)."""
    return max(_LEAST_SECONDS, began + ANSWER_SECONDS - time.monotonic())


def answer_of(
    ask: Callable[[float], Answer], heard: ConnectionErrors, *, refused_for: float = REFUSED_SECONDS
) -> Answer:
    """Return the result of ``ask``, called again while it raises PassingError.

    ``ask`` gets the monotonic time at which the question was first put. ``heard`` keeps the obstacles. An error that a broker
    gives while it starts is believed when it has lasted for ``refused_for`` seconds.

    Raises:
        BrokerError: No attempt succeeded in time; the class says why. Errors of ``ask`` itself go through.
    """
    began = time.monotonic()

    def attempt() -> Answer:
        try:
            return ask(began)
        except PassingError as passing:
            heard.note(passing.error)
            raise

    def may_pass(error: BaseException) -> bool:
        starting = isinstance(error, BrokerError) and error.while_restarting
        return isinstance(error, PassingError) or (starting and time.monotonic() - began < refused_for)

    retrying = Retrying(
        retry=retry_if_exception(may_pass),
        stop=stop_after_delay(ANSWER_SECONDS - _LEAST_SECONDS),
        wait=wait_random(0.05, 0.15),
        before_sleep=before_sleep_log(_LOG, logging.DEBUG),
    )
    try:
        return retrying(attempt)
    except RetryError as error:
        last = error.last_attempt.exception()
        if isinstance(last, BrokerError):
            raise last from None
        raise heard.verdict(began) or heard.unreachable(ANSWER_SECONDS, began) from None
