"""The topic as Dagster shows it: a sensor observes it, a check warns before messages are lost.

Observations are plain numbers, which the UI plots over time on the page of the topic's asset. The check is evaluated by the
sensor, and can also be executed from the UI.
"""

import traceback
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from dts_assets.defs.checks import evaluation
from dts_assets.defs.failures import explained
from dts_assets.defs.metadata import Metadata, known
from dts_assets.defs.policies import asset_key
from dts_assets.defs.resources import PipelineResource
from dts_assets.errors import DtsAssetsError
from dts_assets.model.spans import partition_key
from dts_assets.planning.loss import LossState
from dts_assets.planning.watching import OBSERVE_MOVES, WatchCursor, blind_tick, watch_tick
from dts_assets.settings.models import Subscription

if TYPE_CHECKING:
    from dts_assets.flows.topic import TopicState

TIME_TO_LOSS = "time_to_loss"

_PLOTTED_PARTITIONS = 16
"""The most Kafka partitions that are plotted. Of a larger topic only the totals are; its check has a table of all."""

_MINUTE, _DIGITS = 60.0, 1


def topic_check(subscription: Subscription) -> dg.AssetChecksDefinition:
    """Return the check that warns before messages are deleted that were never stored."""

    @dg.asset_check(
        asset=_key(subscription),
        name=TIME_TO_LOSS,
        description="The time until Kafka deletes messages that were never stored: warns in time, fails once messages are "
        "gone, and while the topic cannot be looked at.",
    )
    def time_to_loss(context: dg.AssetCheckExecutionContext, pipelines: PipelineResource) -> dg.AssetCheckResult:
        from dts_assets.flows.broker_admin import impatient, open_broker
        from dts_assets.flows.topic import find_topic_state

        with explained(context):
            pipeline = impatient(pipelines.pipeline(subscription.name))
            return loss_result(find_topic_state(pipeline, open_broker(pipeline)))

    return time_to_loss


def watch_sensor(subscription: Subscription) -> dg.SensorDefinition:
    """Return the sensor that observes the topic.

    It runs from the start where messages can be lost or windows are followed live.
    """
    runs = subscription.source.kafka is not None or subscription.window.live

    @dg.sensor(
        name=f"{subscription.name}_watch_topic",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING if runs else dg.DefaultSensorStatus.STOPPED,
        description="Observes the topic: its end, the messages that are not stored yet, and the time until Kafka deletes them.",
    )
    def watch_topic(context: dg.SensorEvaluationContext, pipelines: PipelineResource) -> dg.SensorResult:
        cursor, looked_at = WatchCursor.of_text(context.cursor), datetime.now(UTC)
        try:
            state = _look(pipelines, subscription.name, cursor)
        except DtsAssetsError as error:
            return _blind(subscription, cursor, str(error), looked_at)
        except Exception as error:  # whatever keeps the alarm from looking has to set it off
            # The text of a library's error may hold a secret; the place where it was raised does not.
            context.log.error(f"The topic could not be looked at:\n{''.join(traceback.format_tb(error.__traceback__))}")
            return _blind(subscription, cursor, f"{type(error).__name__}, see the log of the tick", looked_at)
        result = loss_result(state)
        tick = watch_tick(
            cursor,
            numbers=_moving(state),
            verdict=_verdict(state),
            trouble=not result.passed,
            oldest=state.oldest,
            now=state.now,
            looked_at=looked_at,
            pause=timedelta() if subscription.window.live else OBSERVE_MOVES,
        )
        events: list[dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation] = []
        if tick.observe:
            events.append(dg.AssetObservation(_key(subscription), metadata=topic_metadata(state)))
        if tick.judge:
            # Without a partition Dagster keeps any number of evaluations outside of runs; with one, the second would fail.
            events.append(evaluation(_key(subscription), result))
        return dg.SensorResult(asset_events=events, cursor=tick.cursor.to_text(), skip_reason=sentence(state))

    return watch_topic


def _look(pipelines: PipelineResource, subscription: str, cursor: WatchCursor) -> "TopicState":
    """Return the topic as it is now, asked with little patience."""
    from dts_assets.flows.broker_admin import impatient, open_broker
    from dts_assets.flows.topic import find_topic_state

    pipeline = impatient(pipelines.pipeline(subscription))
    return find_topic_state(pipeline, open_broker(pipeline), oldest=cursor.oldest)


def _blind(subscription: Subscription, cursor: WatchCursor, reason: str, now: datetime) -> dg.SensorResult:
    """Return the result of a tick that could not look. The check fails: nobody knows what happens to the topic."""
    tick = blind_tick(cursor, now=now)
    said = blind_sentence(cursor.looked_at, reason)
    result = dg.AssetCheckResult(
        check_name=TIME_TO_LOSS,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata=known(
            said=said,
            not_looked_since=cursor.looked_at and dg.MetadataValue.timestamp(cursor.looked_at),
        ),
    )
    events = [evaluation(_key(subscription), result)] if tick.judge else []
    return dg.SensorResult(asset_events=events, cursor=tick.cursor.to_text(), skip_reason=said)


def blind_sentence(looked_at: datetime | None, reason: str) -> str:
    """Return the sentence of a topic that cannot be looked at: the last look and the reason."""
    since = (
        "never looked" if looked_at is None else f"not looked since {looked_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    )
    return f"{since}: {reason}"


def topic_metadata(state: "TopicState") -> Metadata:
    """Return a topic as numbers under plain names: totals, then numbers of each Kafka partition.

    A number that is not known is left out.
    """
    committed = [one.committed for one in state.partitions if one.committed is not None]
    totals: dict[str, float | int | None] = {
        "end_offset": sum(one.watermark.high for one in state.partitions),
        "lag_messages": sum(one.lag_messages for one in state.partitions),
        "lag_seconds": round(state.lag_seconds, _DIGITS),
        "behind_seconds": max((one.behind_seconds for one in state.partitions if one.behind_seconds is not None), default=None),
        "minutes_to_loss": _minutes(state.remaining),
        "lost_messages": sum(len(lost) for one in state.partitions for lost in one.loss.lost),
        "committed_offset": sum(committed) if committed else None,
    }  # fmt: skip
    plotted = state.partitions if len(state.partitions) <= _PLOTTED_PARTITIONS else ()
    numbers = {
        f"{partition_key(one.kafka_partition)}_{name}": value
        for one in plotted
        for name, value in (
            ("end_offset", one.watermark.high), ("lag_messages", one.lag_messages),
            ("lag_seconds", round(one.lag_seconds(state.now), _DIGITS)),
            ("minutes_to_loss", _minutes(one.loss.remaining)), ("committed_offset", one.committed),
        )
    }  # fmt: skip
    return known(**totals, **numbers)


def loss_result(state: "TopicState") -> dg.AssetCheckResult:
    """Return the result of the check.

    It fails where messages are gone, or were within the last lifetime. It warns where the first messages that are not stored
    have passed half of their time in Kafka.
    """
    gone = state.state is LossState.LOST or bool(state.gaps)
    gaps = "\n".join(f"- {text}" for text in _gaps(state))
    return dg.AssetCheckResult(
        check_name=TIME_TO_LOSS,
        passed=not gone and state.state is not LossState.WARNING,
        severity=dg.AssetCheckSeverity.ERROR if gone else dg.AssetCheckSeverity.WARN,
        metadata=known(
            said=sentence(state),
            partitions=dg.MetadataValue.md(_table(state)),
            lag_messages=sum(one.lag_messages for one in state.partitions),
            lag_seconds=round(state.lag_seconds, _DIGITS),
            minutes_to_loss=_minutes(state.remaining),
            gaps=dg.MetadataValue.md(gaps) if gone else None,
            unknown="; ".join(state.unknown) or None,
        ),
    )


def sentence(state: "TopicState") -> str:
    """Return the state of the topic in one sentence."""
    lag = sum(one.lag_messages for one in state.partitions)
    behind = f"{lag:,} messages are not stored yet, the first is {state.lag_seconds:,.0f} s old"
    left = "" if state.remaining is None else f", and is kept for {_minutes(state.remaining):,.0f} more minutes"
    if gone := _gaps(state):
        return f"messages are gone that were never stored: {'; '.join(gone[:5])}"
    return f"{behind}{left}" if lag else "every message of the topic is stored"


def _gaps(state: "TopicState") -> list[str]:
    """Return the lost messages as texts: first the offsets that no stored problem names yet."""
    unnamed = [(one.kafka_partition, str(lost)) for one in state.partitions for lost in one.loss.lost]
    named = [(gap.kafka_partition, f"{gap.offsets}, a gap of window {gap.window}") for gap in state.gaps]
    return [f"{partition_key(partition)} offsets {lost}" for partition, lost in [*unnamed, *named]]


def _moving(state: "TopicState") -> Mapping[str, object]:
    """Return the numbers that move only when something happens: no ages, which always move."""
    return {
        f"{one.kafka_partition}:{name}": value
        for one in state.partitions
        for name, value in (
            ("low", one.watermark.low), ("high", one.watermark.high), ("stored", one.stored_end),
            ("committed", one.committed), ("unread", one.unread.count),
        )
    }  # fmt: skip


def _verdict(state: "TopicState") -> str:
    """Return a text whose change is worth telling at once."""
    states = (one.loss.state for one in state.partitions)
    return ";".join([*(one.value if one.rank > LossState.SAFE.rank else "" for one in states), *_gaps(state)])


def _table(state: "TopicState") -> str:
    lines = ["| | first offset | end | stored up to | not stored | minutes left | |", "|---|---|---|---|---|---|---|"]
    for one in state.partitions:
        minutes = _minutes(one.loss.remaining)
        said = one.loss.state.value.replace("_", " ") + (" (the topic deletes by size)" if one.loss.by_size else "")
        cells = (
            partition_key(one.kafka_partition), one.watermark.low, one.watermark.high,
            "nothing" if one.stored_end is None else one.stored_end, one.lag_messages, "" if minutes is None else minutes, said,
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _minutes(remaining: Any) -> float | None:
    return None if remaining is None else round(remaining.total_seconds() / _MINUTE, _DIGITS)


def _key(subscription: Subscription) -> dg.AssetKey:
    return asset_key(subscription.name, "topic")
