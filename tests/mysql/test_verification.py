"""Comparisons with a real MySQL, and repairs from it: the tests of MariaDB's, with the other server."""

from __future__ import annotations

import pytest

from tests.flows.test_verification import (
    harness,
    server,
    test_a_row_filter_counts_on_both_sides,
    test_a_table_that_was_altered_meanwhile_is_no_false_alarm,
    test_an_equal_lake_is_equal,
    test_each_damaged_cell_is_found_and_named,
    test_no_alarm_is_false_while_writes_go_on,
    test_rows_that_one_side_lacks_are_named,
)

pytestmark = pytest.mark.mysql

__all__ = [
    "harness",
    "server",
    "test_a_row_filter_counts_on_both_sides",
    "test_a_table_that_was_altered_meanwhile_is_no_false_alarm",
    "test_an_equal_lake_is_equal",
    "test_each_damaged_cell_is_found_and_named",
    "test_no_alarm_is_false_while_writes_go_on",
    "test_rows_that_one_side_lacks_are_named",
]
