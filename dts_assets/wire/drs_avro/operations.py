"""The operations of records, in whatever letters a schema has them: ``INSERT``, ``insert``, ``I``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from dts_assets.wire.avro.side_by_side import Ints

INSERT, UPDATE, DELETE, READ, STATEMENT, FIRST_STATEMENT, MARK = range(7)
"""Changes of rows, a row of the full load, statements, and marks without rows, such as BEGIN."""
UNKNOWN = -1

TYPES = ("INSERT", "UPDATE", "DELETE", "INIT", "DDL", "INIT_DDL")
"""The types in the vendor's words, by number; a mark keeps its own."""

MARKS = ("BEGIN", "COMMIT", "ROLLBACK", "HEARTBEAT", "CHECKPOINT")

_NUMBERS: Mapping[str, int] = {
    **{name: number for number, name in enumerate(TYPES)}, "INIT_INSERT": READ, "I": INSERT, "U": UPDATE, "D": DELETE,
    **dict.fromkeys(MARKS, MARK),
}  # fmt: skip


def operations_of(texts: pa.Array) -> Ints:
    """Return the operation behind each text, -1 for one that is not known or not sent."""
    encoded = texts.dictionary_encode()
    known = [_NUMBERS.get(one.decode(errors="replace").upper(), UNKNOWN) for one in encoded.dictionary.to_pylist()]
    found: Ints = np.asarray([*known, UNKNOWN], np.int64)[encoded.indices.fill_null(-1).to_numpy()]
    return found
