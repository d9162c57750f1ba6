"""The features that meet, which of them never do, and what each writes into the settings of a subscription."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from random import Random
from typing import Any, Final

from dts_assets.model.tables import TableId


class Feature(StrEnum):
    """A feature of a source, of its topic, of a subscription or of its upkeep."""

    MERGE = "merge"
    RENAME = "rename"
    RULES = "rules"
    FILTER = "filter"
    HISTORY = "history"
    SOFT = "soft"
    LAYOUT = "layout"
    MAPPING = "mapping"
    KEEP = "keep"
    FREEZE = "freeze"
    STOP = "stop"
    LANES = "lanes"
    TOPICS = "topics"
    PIECES = "pieces"
    AGAIN = "again"
    FAILOVER = "failover"
    RETOLD = "retold"
    SETS = "sets"
    MINIMAL = "minimal"
    MOMENTS = "moments"
    MAINTENANCE = "maintenance"
    RETENTION = "retention"
    COPIES = "copies"
    REDRIVE = "redrive"
    PAUSES = "pauses"


F = Feature
POLICIES: Final = (F.KEEP, F.FREEZE, F.STOP)

CHANCES: Final[Mapping[Feature, float]] = {
    **dict.fromkeys(F, 0.3),
    **dict.fromkeys(POLICIES, 0.2),
    F.MERGE: 0.4,
    F.SETS: 0.2,
    F.MINIMAL: 0.25,
    F.TOPICS: 0.2,
    F.RETOLD: 0.2,
}

NEEDS: Final[Mapping[Feature, Feature]] = {F.TOPICS: F.LANES, F.RETOLD: F.FAILOVER}
"""A feature that there is only beside another one."""

APART: Final[Mapping[frozenset[Feature], str]] = {
    frozenset({F.KEEP, F.FREEZE}): "a table has one policy",
    frozenset({F.KEEP, F.STOP}): "a table has one policy",
    frozenset({F.FREEZE, F.STOP}): "a table has one policy",
    frozenset({F.SETS, F.MOMENTS}): "positions of several servers are no moment of all",
    frozenset({F.SETS, F.COPIES}): "docs/shards.md: a copy does not tell the set of a row",
    frozenset({F.FAILOVER, F.COPIES}): "copies have positions of the first server",
    frozenset({F.PAUSES, F.RETENTION}): "docs/paused-tables.md: a table cannot come back whose entries have left",
    frozenset({F.PAUSES, F.COPIES}): "docs/paused-tables.md: a table that comes back waits for its copy",
    frozenset({F.RETENTION, F.REDRIVE}): "docs/rules.md: rows whose messages have left stay in quarantine",
}
"""Features that never meet, with the reason."""

KEY: Final = "a key that nobody guesses"
MASK: Final = "***"
PATTERN: Final = "[0-9]+"
RULED: Final = ("mail", "phone", "secret", "card")
"""The columns under a rule, in every table."""
RULES: Final[dict[str, Any]] = {
    "*.mail": {"hash": {"key": KEY}},
    "*.phone": {"mask": MASK},
    "*.secret": "drop",
    "*.card": {"tokenize": {"key": KEY, "pattern": PATTERN}},
}

SHARDS: Final = (("shop_00", "orders_1"), ("shop_00", "orders_2"), ("shop_01", "orders_1"))
DATABASES: Final = ("d", "shop_00", "shop_01")
MERGED: Final = ("shop", "orders")
RENAMED: Final = {("d", "items"): ("sales", "goods"), ("d", "bag_2"): ("sales", "goods_2")}
MERGE: Final = {"shop.orders": ["shop_*.orders_*"]}
LIMIT: Final = 50
"""Rows pass the filter whose ``f`` is less."""
FILTERED: Final = ("f", "f_two", "f_three")
"""The names that statements give to the column of the filter; a table has one of them."""


def drawn(random: Random, always: Collection[Feature] = ()) -> frozenset[Feature]:
    """Some features that may meet, among them some that are ``always`` there."""
    found: set[Feature] = {one for one in F if random.random() < CHANCES[one]} | {*always}
    found |= {NEEDS[one] for one in found if one in NEEDS}
    for pair in APART:
        if pair <= found:
            found.discard(random.choice(sorted(pair - {*always}) or sorted(pair)))
    return frozenset(one for one in found if one not in NEEDS or NEEDS[one] in found)


def settings_of(features: Collection[Feature], seed: int) -> dict[str, Any]:
    """The settings of a subscription with some features."""
    random, found = Random(f"{seed} settings"), dict[str, Any]()
    filtered = random.choice(("*", "d.*"))
    layout = random.choice(
        ({"partition": ["bucket(3, f)"]}, {"sort": ["f"]}, {"partition": ["truncate(10, f)"], "sort": ["f"]})
    )
    ages = random.choice(({"raw": "1d"}, {"raw": "1d", "entries": "1d"}))
    if F.MERGE in features:
        found["merge"] = MERGE
    if F.RENAME in features:
        found["rename"] = {".".join(old): ".".join(new) for old, new in RENAMED.items()}
    if F.RULES in features:
        found["columns"] = RULES
    if F.FILTER in features:
        found["rows"] = {filtered: f"f < {LIMIT}"}
    if F.HISTORY in features:
        found["history"] = ["*"]
    if F.SOFT in features:
        found["deletes"] = "soft"
    if F.LAYOUT in features:
        found["layout"] = {"*": layout}
    if F.MAPPING in features:
        found["type_mapping"] = ["bigint-unsigned-to-bigint", "tinyint1-to-boolean", "datetime-to-timestamp"]
    if F.RETENTION in features:
        found["message_retention"] = ages
    for one in POLICIES:
        if one in features:
            found["schema_changes"] = {"d.*": str(one)}
    return found


def lake_table(table: TableId, features: Collection[Feature]) -> TableId:
    """The lake table of a source table."""
    if F.MERGE in features and table.database.startswith("shop_") and table.table.startswith("orders_"):
        return TableId(MERGED[0], "", MERGED[1])
    name = RENAMED.get((table.database, table.table)) if F.RENAME in features else None
    return table if name is None else TableId(name[0], "", name[1])


def is_filtered(table: TableId, settings: Mapping[str, Any]) -> bool:
    """Whether a lake table has the row filter."""
    globs = settings.get("rows", {})
    return "*" in globs or ("d.*" in globs and table.database in ("d", "sales"))
