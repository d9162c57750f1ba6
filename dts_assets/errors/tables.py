"""Errors of steps that are done table by table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors import DtsAssetsError


@dataclass(eq=False)
class SharedFaultError(DtsAssetsError):
    """A step that failed for all of its tables in the same way.

    That is the fault of no table. ``fault`` is the kind of the error and its place in this package:
    "KeyError at store/files.py:120".
    """

    retriable: ClassVar[bool] = True

    layer: str
    tables: int
    fault: str

    def message(self) -> str:
        """Return the layer, the fault and the way out."""
        return (
            f"All {self.tables} tables of the layer {self.layer} that had work failed in the same way ({self.fault}), so none "
            f"was paused. Run it again; if it comes back, look at the run in the Dagster UI and report it."
        )
