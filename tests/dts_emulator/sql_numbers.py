"""Numbers as a table, in the SQL that MariaDB and MySQL have in common.

MariaDB ends a recursive table after a thousand rows without a word, so it is none.
"""

from __future__ import annotations

_DIGITS = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
_MOST = 10_000


def numbers(count: int) -> str:
    """A table of one column ``seq`` with the numbers from 1 to ``count``, at most 10,000, for FROM."""
    assert count <= _MOST
    places = ", ".join(f"({_DIGITS}) AS d{place}" for place in range(4))
    number = "1 + d0.d + 10 * d1.d + 100 * d2.d + 1000 * d3.d"
    return f"(SELECT {number} AS seq FROM {places} WHERE {number} <= {count}) AS numbers"
