"""The windows that stay as an earlier version of this package, or other settings, made them.

Their entries have left by retention, so nothing can make them again. A person is told once, with the commands that help.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dts_assets.model.ledger_rows import Cut
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window
from dts_assets.planning.message_retention import Unmakeable
from dts_assets.planning.rectangles import window_runs
from dts_assets.planning.staleness import SETTINGS_INPUT, input_text

_SHOWN = 10
"""The most ranges, and the most tables, that a sentence names."""


@dataclass(frozen=True, slots=True)
class KeptWindows:
    """Windows that would be made otherwise now, and cannot be made again.

    ``code_versions`` are the earlier versions of the code that made some of them. ``other_settings`` says that other settings
    shaped rows of some.
    """

    windows: tuple[Window, ...] = ()
    code_versions: tuple[str, ...] = ()
    other_settings: bool = False


def kept_windows(cuts: Iterable[Cut], unmakeable: Unmakeable, *, settings: str, code_version: str) -> KeptWindows:
    """Return the windows whose entries have left and that another code, or other settings, have made.

    ``settings`` is the digest of the settings that shape rows now, and ``code_version`` that of the code.
    """
    now = input_text(SETTINGS_INPUT, settings)
    found = [
        one
        for one in cuts
        if (one.code_version != code_version or now not in one.inputs) and unmakeable.entries_of(one.inputs)
    ]
    return KeptWindows(
        tuple(sorted(one.window for one in found)),
        tuple(sorted({one.code_version for one in found} - {code_version})),
        any(now not in one.inputs for one in found),
    )


def kept_sentence(
    kept: KeptWindows, subscription: str, tables: Collection[TableId], *, code_version: str, has_rules: bool
) -> str:
    """Return the sentence that names windows, and the commands that mend what they have made.

    ``tables`` are those that have changes in them. ``has_rules`` says that columns have rules.
    """
    ranges = [
        some[0].key if len(some) == 1 else f"{some[0].key} to {some[-1].key}" for some in window_runs(kept.windows)
    ]
    made = [f"code version {', '.join(kept.code_versions)} (now {code_version})"] if kept.code_versions else []
    made += ["other settings"] if kept.other_settings else []
    name = shlex.quote(subscription)
    command = f"dts-assets resync {name} {_listed(sorted(shlex.quote(str(one)) for one in tables), ' ')}"
    rules = f"; dts-assets rules apply {name} lets plain values pass their rules" if has_rules else ""
    return (
        f"{subscription}: {len(kept.windows):,} windows, {_listed(ranges, ', ')}, stay as {' and '.join(made)} made them: "
        f"retention has removed entries that they would be made from. Tables that are wrong by it are copied anew by "
        f"{command}{rules}. This is said once."
    )


def _listed(names: list[str], joint: str) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return joint.join(names[:_SHOWN]) + more
