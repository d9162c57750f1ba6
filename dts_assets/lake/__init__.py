"""The lake as programs read it: tables as of a moment of the source, or as they are.

This room is the public interface for Python; ``dts-assets as-of`` is made of it. See docs/as-of.md.
"""

from dts_assets.flows.moment_costs import TableCost
from dts_assets.lake.opened import Lake, open_lake
from dts_assets.lake.tables import LakeTable, LakeTables, Plan

__all__ = ["Lake", "LakeTable", "LakeTables", "Plan", "TableCost", "open_lake"]
