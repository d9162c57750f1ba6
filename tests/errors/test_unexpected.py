"""Errors that nobody expected lose their texts; errors for people, of servers and of the machine keep them."""

from __future__ import annotations

import traceback

import pyarrow as pa
import pytest

from dts_assets.errors import DtsAssetsError
from dts_assets.errors.sources import CaptureError
from dts_assets.errors.unexpected import UnexpectedError, without_values
from tests.stateful.marked import MARK


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as found:
        return found


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


class Jvm(Exception):
    """An error as Spark gives it."""


Jvm.__module__ = "pyspark.errors"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(MARK),
        KeyError(MARK),
        pa.ArrowInvalid(MARK),
        UnicodeDecodeError("utf-8", MARK.encode(), 0, 1, MARK),
        Jvm(MARK),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_text_that_may_hold_a_value_goes_and_class_and_stack_stay(error: Exception) -> None:
    bare = without_values(raised(error, raised(KeyError(MARK))))
    assert isinstance(bare, UnexpectedError)
    text = shown(bare)
    assert MARK not in text
    assert type(error).__name__ in text
    assert "in raised" in text
    assert "KeyError" in text


@pytest.mark.parametrize(
    "error",
    [
        CaptureError("/capture", "there is none"),
        ConnectionRefusedError(111, "refused"),
        ImportError("No module named x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_texts_stay(error: Exception) -> None:
    found = raised(error)
    assert without_values(found) is found


def test_the_causes_of_an_error_for_people_lose_their_texts() -> None:
    found = without_values(raised(CaptureError("/capture", "there is none"), raised(ValueError(MARK), KeyError(MARK))))
    assert isinstance(found, DtsAssetsError)
    assert MARK not in shown(found)
    assert "there is none" in shown(found)


def test_an_error_that_came_up_while_another_was_handled_has_neither_text() -> None:
    def both() -> None:
        try:
            raise KeyError(MARK)
        except KeyError:
            raise OSError(5, "no answer")  # noqa: B904  # this is how a handler fails

    try:
        both()
    except OSError as error:
        found = without_values(error)
    assert found is not None
    assert MARK not in shown(found)
    assert "no answer" in shown(found)


def test_a_ring_of_causes_ends() -> None:
    one, other = ValueError(MARK), KeyError(MARK)
    one.__cause__, other.__cause__ = other, one
    assert MARK not in shown(without_values(one))
