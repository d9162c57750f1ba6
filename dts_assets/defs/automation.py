"""AutomationConditions for tables, offered where graphs are small: ``automation: conditions`` of a subscription.

Conditions are Dagster's own way to say when an asset is due. Dagster looks at every partition of every asset at each tick, which
takes seconds from some hundred tables on, and knows partitions but not the ledger: a window whose tables are stale because of
another window (a head that arrived late, a lineage) is not asked for. So a sensor that reads the ledger drives tables by default.
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from dts_assets.settings.models import Subscription

CONDITION = "every Kafka partition of the window is there, or was made again"


def tables_condition() -> dg.AutomationCondition[dg.AssetKey]:
    """Return the condition: every Kafka partition of a window has entries, or has got new entries.

    The condition is like Dagster's ``eager()``, but for every window: ``eager()`` acts on the latest window alone, and a
    replay would not propagate.
    Windows that were missing when the condition was switched on are not asked for: a backfill makes them.
    """
    every_window = dg.AutomationCondition.eager().without(dg.AutomationCondition.in_latest_time_window())
    return (every_window & dg.AutomationCondition.all_deps_blocking_checks_passed()).with_label(CONDITION)


def automation_sensor(subscription: Subscription, assets: Iterable[dg.AssetKey]) -> dg.SensorDefinition:
    """Return the sensor that evaluates the conditions of a subscription's tables and asks for runs."""
    return dg.AutomationConditionSensorDefinition(
        f"{subscription.name}_automation",
        target=dg.AssetSelection.assets(*assets),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING if subscription.window.live else dg.DefaultSensorStatus.STOPPED,
        description="Asks for the tables of windows by their AutomationConditions.",
    )
