"""Tests of other rooms that are run again here, with a MySQL in the place of their MariaDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli import test_verify
from tests.flows import test_repairs, test_verification
from tests.mysql.servers import summing_mysql


@pytest.fixture(autouse=True, scope="module")
def _mysql_instead() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (test_repairs, test_verification, test_verify):
            patch.setattr(module, "private_server", summing_mysql)
        patch.setattr(test_verification, "LEFT_OUT", {"price", "doc"})  # a JSON of MySQL is no text
        yield
