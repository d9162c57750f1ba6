"""Numbers as a table, in the SQL that MariaDB and MySQL have in common."""

from __future__ import annotations


def numbers(count: int) -> str:
    """A table of one column ``seq`` with the numbers from 1 to ``count``, for FROM."""
    return f"(WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < {count}) SELECT seq FROM n) ns"
