"""Clients of the broker end without harm, whichever thread happens to free them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.timeout(120)
def test_a_client_that_was_given_up_is_not_freed_in_its_own_thread() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.sources.collecting"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "objects were freed" in done.stdout
