"""Lines about statements of a source that were left out, for all commands that write statements."""

from __future__ import annotations

from collections.abc import Iterator

from dts_assets.flows.statement_export import Exported


def left_out_statements(exported: Exported) -> Iterator[str]:
    """Yield lines about statements of the source that were left out.

    Each reason has a line, and parts of statements have one.
    """
    for reason, count in sorted(exported.left_out.items()):
        yield f"{count:,} statements of the source are left out: {reason}"
    if exported.parts:
        parts = ", ".join(f"{count:,} {part}" for part, count in sorted(exported.parts.items()))
        yield f"parts of statements are left out: {parts}"
