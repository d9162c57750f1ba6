"""``dts-assets verify`` with a real MySQL: the tests of MariaDB's, with the other server."""

from __future__ import annotations

import pytest

from tests.cli.test_verify import (
    _password,
    config,
    own,
    shared,
    test_a_damaged_cell_is_named_and_its_value_shown_on_request_alone,
    test_a_wrong_password_ends_with_the_source_and_without_the_password,
    test_equal_tables_end_with_nothing_to_do,
)

pytestmark = pytest.mark.mysql

__all__ = [
    "_password",
    "config",
    "own",
    "shared",
    "test_a_damaged_cell_is_named_and_its_value_shown_on_request_alone",
    "test_a_wrong_password_ends_with_the_source_and_without_the_password",
    "test_equal_tables_end_with_nothing_to_do",
]
