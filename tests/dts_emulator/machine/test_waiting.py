"""Waiting ends when the answer is there, when the time is over, and with whatever is raised."""

from __future__ import annotations

import time
from itertools import count

import pytest

from dts_emulator.machine.waiting import wait_for, wait_until


def test_the_first_true_answer_ends_the_wait() -> None:
    answers = iter([None, "", "there", "later"])
    assert wait_for(lambda: next(answers), seconds=10, every=0) == "there"
    assert next(answers) == "later"


def test_a_wait_in_vain_ends_after_its_time() -> None:
    began, asked = time.monotonic(), count()
    assert not wait_until(lambda: next(asked) < 0, seconds=0.1, every=0.01)
    assert time.monotonic() - began >= 0.1
    assert next(asked) > 1


def test_without_time_it_is_asked_once() -> None:
    asked = count()
    assert not wait_until(lambda: next(asked) < 0, seconds=0)
    assert next(asked) == 1


def test_an_error_is_not_waited_out() -> None:
    def broken() -> bool:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        wait_until(broken, seconds=10)
