"""Numbers as Go's shortest %g writes them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_emulator.messages.float_texts import double_text, single_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12510357.0, "1.2510357e+07"),
        (1e6, "1e+06"),
        (999999.0, "999999"),
        (999999.5, "999999.5"),
        (123456.789, "123456.789"),
        (0.0001, "0.0001"),
        (0.00009999, "9.999e-05"),
        (0.1, "0.1"),
        (100.0, "100"),
        (0.0, "0"),
        (-0.0, "-0"),
        (-2.5, "-2.5"),
        (-1e-7, "-1e-07"),
        (1e21, "1e+21"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740993.0, "9.007199254740992e+15"),
    ],
)
def test_doubles_are_written_as_short_as_they_can_be_read_back(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (16777216.0, "1.6777216e+07"),
        (3.4028234663852886e38, "3.4028235e+38"),
        (1.17549435e-38, "1.1754944e-38"),
    ],
)
def test_singles_are_as_short_as_a_single_allows(value: float, text: str) -> None:
    assert single_text(float(np.float32(value))) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_as_itself(value: float) -> None:
    text = double_text(value)
    assert float(text) == value
    assert ("e" in text) == (value != 0 and not 1e-4 <= abs(float(text)) < 1e6)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_single_reads_back_as_itself(value: float) -> None:
    assert np.float32(single_text(value)) == np.float32(value)
