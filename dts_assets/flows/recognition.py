"""The look at the newest messages of a source, which may be of another format than configured."""

from __future__ import annotations

import pyarrow as pa

from dts_assets.settings.formats import registered_formats, traits_of
from dts_assets.settings.models import Subscription
from dts_assets.sources.capture_source import MESSAGE_SCHEMA
from dts_assets.sources.samples import newest, read_sample
from dts_assets.sources.source import Source
from dts_assets.wire.recognition.recogniser import Recognition, recognise

MOST_MESSAGES = 32
"""The newest messages of each Kafka partition that are looked at."""

_SECONDS = 10.0


def recognise_source(source: Source, subscription: Subscription) -> Recognition:
    """Return what the newest messages of a subscription look like. Nothing is committed. SourceErrors go through.

    Raises:
        WireFormatError: The schema file cannot be read.
    """
    marks = sorted(source.watermarks().items())
    ranges = [(number, offsets) for number, mark in marks for offsets in newest(mark, MOST_MESSAGES)]
    batches = [batch.slice(0, MOST_MESSAGES) for _, batch in read_sample(source, ranges, seconds=_SECONDS)]
    table = pa.Table.from_batches(batches, MESSAGE_SCHEMA).combine_chunks()
    sample = table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], MESSAGE_SCHEMA)
    return recognise(sample, subscription.format_settings)


def way_out(recognition: Recognition) -> str:
    """Return what to write in the configuration for messages that were recognised: ``write format: drs-json``."""
    formats = recognition.formats
    if not formats:
        return f"have the topic sent in a format that is read: {', '.join(registered_formats())}"
    written = f"write format: {' or '.join(formats)}"
    if len(formats) > 1:
        written += ", whichever the task was set to"
    return f"{written}, and schema: with its file" if any(traits_of(name).needs_schema for name in formats) else written
