"""The progress of a run as plain lines in a terminal, without Dagster's own events."""

from __future__ import annotations

import logging
import sys

import dagster as dg


class _PlainLine(logging.Formatter):
    """The format of a message as the flow gave it; Dagster keeps it beside the decorated message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message, indented."""
        meta = getattr(record, "dagster_meta", None) or {}
        return f"  {meta.get('orig_message', record.getMessage())}"


@dg.logger(None, description="Progress lines on stdout, for commands that run a job in their own process.")
def progress_logger(_: dg.InitLoggerContext) -> logging.Logger:
    """Return a logger that shows the lines that assets log at INFO and above."""
    logger = logging.Logger("dts_assets.progress", logging.INFO)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_PlainLine())
    handler.addFilter(lambda record: not (getattr(record, "dagster_meta", None) or {}).get("dagster_event"))
    logger.addHandler(handler)
    return logger
