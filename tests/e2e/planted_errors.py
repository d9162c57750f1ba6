"""Errors with a value in their text, planted in each process of a command: in a task, in the driver, at all tables.

A command's processes load this module when they start, Spark's workers as well, and ``PLANTED_ERROR`` names one of ``PLACES``.
With ``PLANTED_FAULT`` the product leaves such texts as they are, so that a search must find the value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.stateful.marked import MARK

PLACES: Final = ("a task", "the driver", "all tables")
ERROR: Final = "PLANTED_ERROR"
FAULT: Final = "PLANTED_FAULT"

SITE: Final = f"""\
import os

if {ERROR!r} in os.environ:
    from tests.e2e.planted_errors import plant

    plant()
"""
"""The text of a module ``sitecustomize``, which each Python process loads by itself."""


def in_each_process(folder: Path) -> None:
    """Make a folder for PYTHONPATH."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE)


def plant() -> None:
    """Plant the error that the environment names."""
    from dts_assets.flows import spark_tasks
    from dts_assets.sources.capture_source import CaptureSource
    from dts_assets.store.lake import Lake

    match os.environ[ERROR]:
        case "a task":
            CaptureSource.read = _failing  # type: ignore[method-assign]
        case "the driver":
            Lake.replace = _failing_at("raw_envelopes", Lake.replace)  # type: ignore[method-assign]
        case "all tables":
            Lake.ensure = _failing_at("changelog", Lake.ensure)  # type: ignore[method-assign]
    if FAULT in os.environ:
        from dts_assets.defs import failures

        for module in (spark_tasks, failures):
            vars(module)["without_values"] = lambda error: error


def _failing(*_: Any, **__: Any) -> Any:
    try:
        raise KeyError(f"{MARK}1")
    except KeyError as error:
        raise ValueError(f"cannot convert {MARK}2") from error


def _failing_at(layer: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def at(lake: Any, path: Sequence[str], *rest: Any, **more: Any) -> Any:
        if layer in path:
            _failing()
        return real(lake, path, *rest, **more)

    return at
