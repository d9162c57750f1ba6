"""The lock file agrees with what the project asks for, and the check of that notices when it does not."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

HOUSE = Path(__file__).parents[2]
PROJECT = {
    "project": {"dependencies": ["one>=1,<2"], "optional-dependencies": {"dev": ["two==3.0"]}},
    "build-system": {"requires": ["tools>=80"]},
}
LOCK = """\
one==1.5 \\
    --hash=sha256:00
    # via two
two==3.0 ; python_version < "3.99" \\
    --hash=sha256:00
tools==80.1 \\
    --hash=sha256:00
"""


@pytest.fixture(scope="module")
def check_lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_lock", HOUSE / "scripts" / "check_lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lock_agrees_with_the_project(check_lock: ModuleType) -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())
    assert check_lock.disagreements((HOUSE / "requirements.lock").read_text(), project, installed=False) == []


def test_a_lock_that_satisfies_everything_has_no_disagreement(check_lock: ModuleType) -> None:
    assert check_lock.disagreements(LOCK, PROJECT, installed=False) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("one==1.5", "one==2.5"), "one is locked at 2.5, required is <2,>=1"),
        (("two==3.0", "six==3.0"), "two is required and not locked"),
        (("tools==80.1 \\\n    --hash=sha256:00", "tools==80.1"), "tools 80.1 has no hash"),
        (("one==1.5", "--pre somewhere\none==1.5"), "options or addresses"),
        (("# via two", "# from https://somewhere"), "options or addresses"),
    ],
)
def test_a_disagreement_is_named(check_lock: ModuleType, change: tuple[str, str], sentence: str) -> None:
    wrong = check_lock.disagreements(LOCK.replace(*change), PROJECT, installed=False)
    assert any(sentence in text for text in wrong), wrong
