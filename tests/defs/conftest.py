"""A fresh project and a fresh Dagster for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.defs.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two Kafka partitions, three hourly windows from 2026-01-05 on, no table known, no message yet."""
    return Project(tmp_path).configure()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """The runs, events and ticks of a Dagster that has none yet."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made
