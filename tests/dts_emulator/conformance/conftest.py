"""The suite, written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dts_emulator.conformance.writing import write_suite


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    write_suite(folder)
    return folder
