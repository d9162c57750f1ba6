"""The codes of commits, each checked out once a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.versions.made_by import ROOT, Codes, code_in


@pytest.fixture(scope="session")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Codes]:
    """The codes of commits, and that of the working tree."""
    with ExitStack() as stack:
        yield Codes(stack, code_in(ROOT, metadata=tmp_path_factory.mktemp("present")))
