"""The lineage of every entry of a batch, in columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.lineages import LineageRule
from dts_assets.stages.entry_columns import rows_by_shard
from dts_assets.stages.gtid_columns import GtidColumn

Lineages = npt.NDArray[np.int32]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = np.iinfo(np.int64).max


def entry_lineages(entries: pa.RecordBatch, rules: Mapping[str, LineageRule]) -> Lineages:
    """Return the lineage of each entry of one Kafka partition.

    ``entries`` has ``last_offset``, ``event_time``, ``gtid`` and ``shard``.

    ``rules`` has the rule of each shard; a shard without one is lineage 0. The twin of ``LineageRule.lineage``.
    """
    found = np.zeros(entries.num_rows, np.int32)
    if not any(rule.base or rule.breaks for rule in rules.values()):
        return found
    for shard, rows in rows_by_shard(entries["shard"], among=np.ones(len(found), np.bool_)):
        rule = rules.get(shard)
        if rule is not None:
            found[rows] = _by_rule(entries.take(pa.array(rows)), rule) if rule.breaks else rule.base
    return found


def _by_rule(entries: pa.RecordBatch, rule: LineageRule) -> Lineages:
    offsets = entries["last_offset"].to_numpy()
    times = pc.fill_null(entries["event_time"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), 0).to_numpy()
    gtids = GtidColumn.of(entries["gtid"])
    numbers, codes = gtids.row_numbers()
    found = np.full(entries.num_rows, rule.base, np.int32)
    for one in rule.breaks:
        # The last of these stands for entries without a GTID, whose code is -1.
        seen = dict(one.seen if one.inside is None else one.inside)
        limits = np.array([*(seen.get(name, -1) for name in gtids.names), -1], np.int64)
        if one.offset is not None:
            behind = offsets >= one.offset
            if one.inside is not None:
                behind &= (offsets > one.offset) | (numbers > limits[codes])
            found[behind] = one.lineage
            continue
        surely = offsets >= (_NEVER if one.surely is None else one.surely)
        by_clock = times >= (one.time - _EPOCH) // timedelta(microseconds=1)
        if not one.by_gtid:
            by_clock |= surely
        behind = np.where((numbers >= 0) & one.by_gtid, (numbers > limits[codes]) | surely, by_clock)
        found[behind & (offsets >= one.since)] = one.lineage
    return found
