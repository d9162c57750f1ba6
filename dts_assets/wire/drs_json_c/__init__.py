"""The wire format ``drs-json-c``: Huawei Cloud DRS, MySQL or TaurusDB to Kafka, message format JSON-C."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import Column, mysql_type
from dts_assets.model.tables import TableId
from dts_assets.wire.drs_json_c.json_entries import entries_of
from dts_assets.wire.drs_json_c.json_rows import changes_of
from dts_assets.wire.format import FRAGMENTS, DecodedChanges, DecodedEntries

_BARE = re.compile(r"\s*(dec(imal)?|numeric|fixed)(\s+(unsigned|zerofill))*\s*", re.I)
_BIT = re.compile(r"\s*bit\b", re.I)


@dataclass(frozen=True, slots=True)
class DrsJsonC:
    """:class:`dts_assets.wire.format.WireFormat` of DRS JSON-C.

    ``source_time_zone`` is that of TIMESTAMP values, which the vendor writes as wall clocks: ``+08:00`` or ``Asia/Shanghai``.
    """

    source_time_zone: str = "+00:00"

    @property
    def decoder(self) -> str:
        """What parses, with its version: ``msgspec 0.22.0``."""
        return _parser_name()

    def fragments(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """FRAGMENTS of a batch of MESSAGES, row for row: every message is whole."""
        count = messages.num_rows
        values = messages["value"]
        is_null = np.asarray(pc.equal(pc.fill_null(pc.binary_length(values), 0), 0))
        columns = {
            "shard": pa.repeat(pa.scalar(""), count),
            "sequence": pa.nulls(count, pa.int64()),
            "total": pa.array(np.ones(count, np.int64), mask=is_null),
            "index": pa.array(np.zeros(count, np.int64), mask=is_null),
            "data": pc.if_else(pa.array(is_null), pa.scalar(None, pa.binary()), values) if is_null.any() else values,
            "is_null": pa.array(is_null),
            "reason": pa.nulls(count, pa.string()),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=FRAGMENTS)

    def entries(self, sets: pa.Array) -> DecodedEntries:
        """One entry per message; one that is no JSON object is rejected whole."""
        return entries_of(sets)

    def changes(self, entries: pa.RecordBatch, tables: Mapping[TableId, tuple[Column, ...]]) -> DecodedChanges:
        """The row changes of DML entries; an entry whose rows cannot be used is rejected whole."""
        return changes_of(entries, tables, zone=self.source_time_zone)

    def column_type(self, original_type: str, *, unsigned: bool) -> str:
        """The lake type of a column. The vendor sends neither precision nor sign, so types are wide enough without them.

        How BIT is written is not documented: it stays text.
        """
        if _BARE.fullmatch(original_type) or _BIT.match(original_type):
            return "string"
        found = mysql_type(original_type, unsigned=unsigned) or "string"
        return "bigint" if found == "int" and re.match(r"\s*int", original_type, re.I) else found


@cache
def _parser_name() -> str:
    return f"msgspec {version('msgspec')}"
