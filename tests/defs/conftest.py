"""A fresh project for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.defs.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two Kafka partitions, three hourly windows from 2026-01-05 on, no table known, no message yet."""
    return Project(tmp_path).configure()
