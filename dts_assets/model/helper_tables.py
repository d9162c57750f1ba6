"""Tables that tools for schema changes make beside a table, to take its place.

gh-ost makes ``_T_gho``, ``_T_ghc`` and ``_T_del``, pt-online-schema-change makes ``_T_new`` and ``_T_old``. They hold rows of
the table T before any statement says so.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dts_assets.model.tables import TableId

_HELPER = re.compile(r"_(.+)_(?:gho|ghc|del|new|old)", re.S | re.I)


def helped_table(table: TableId) -> TableId | None:
    """Return the table whose rows a helper table has, by its name: ``customers`` for ``_customers_gho``."""
    found = _HELPER.fullmatch(table.table)
    return None if found is None else replace(table, table=found.group(1))
