"""Repairs from a real MySQL: the tests of MariaDB's, with the other server."""

from __future__ import annotations

import pytest

from tests.flows.test_repairs import (
    harness,
    server,
    test_a_key_that_was_damaged_to_another_rows_is_repaired_for_both,
    test_repaired_rows_come_again_when_their_window_is_made_again,
    test_rows_that_differ_are_taken_from_the_source,
)

pytestmark = pytest.mark.mysql

__all__ = [
    "harness",
    "server",
    "test_a_key_that_was_damaged_to_another_rows_is_repaired_for_both",
    "test_repaired_rows_come_again_when_their_window_is_made_again",
    "test_rows_that_differ_are_taken_from_the_source",
]
