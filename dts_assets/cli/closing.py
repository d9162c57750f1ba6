"""The end of ``dts-assets run``: the closing table of a subscription, and its checks, one by one.

A check that fails by an error ends neither the command nor the other checks.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console

from dts_assets.cli.main import table_of
from dts_assets.errors import WireFormatError
from dts_assets.errors.sources import SourceError
from dts_assets.flows.judged import judge_ledger, unusable_tables
from dts_assets.flows.kept_windows import Place, name_kept_windows
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.layers import SNAPSHOT, Layer
from dts_assets.flows.one_by_one import one_by_one
from dts_assets.flows.pauses import paused_here
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.recognition import recognise_source, way_out
from dts_assets.flows.row_keys import find_repeated_keys
from dts_assets.flows.this_process import this_process
from dts_assets.flows.unmatched_rules import unmatched_settings
from dts_assets.flows.unproven import unproven_tables, unseen_now
from dts_assets.flows.upkeep import mend_copies
from dts_assets.model.failures import Failure
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.model.tables import TableId
from dts_assets.planning.column_types import converted_columns
from dts_assets.planning.message_retention import removed_lines
from dts_assets.planning.pauses import resume_command
from dts_assets.settings.load import mistake_at

_KEYS_LOOKED_AT = 200_000
"""The rows of snapshots whose keys are looked at in the end.

That takes a fraction of a second; `dts-assets keys` looks at all of them.
"""


@dataclass(slots=True)
class Closing:
    """The outcome of checks: the number of things that are wrong, and the errors that were met.

    ``has_another_format`` says that messages are not of the configured format, which explains all else. ``unproven`` are the
    tables whose snapshots are not proven as they stand.
    """

    config: Path
    failed_checks: int = 0
    has_another_format: bool = False
    failures: list[Failure] = field(default_factory=list)
    unproven: set[TableId] = field(default_factory=set)


def close(pipeline: Pipeline, console: Console, config: Path) -> Closing:
    """Print the closing table of a subscription and what its checks found; ``config`` is the configuration's file."""
    closing = Closing(config)
    done = one_by_one(
        _CHECKS,
        lambda name: _CHECKS[name](pipeline, console, closing),
        named=lambda name: f"{pipeline.name}: the check of {name}",
    )
    closing.failures += done.failures.values()
    return closing


def _show_rows(pipeline: Pipeline, console: Console, closing: Closing) -> None:
    rows = pipeline.ledger.windows()
    cuts = {row.window.start for row in pipeline.ledger.cuts()}
    title = f"{pipeline.name}: {len(rows)} partitions of {len(cuts)} windows"
    known = known_tables(pipeline)
    layers = [
        layer for layer in pipeline.layers if layer.make and any(layer.takes(pipeline.settings, name) for name in known)
    ] or [SNAPSHOT]
    table = table_of(title, texts=["table"], numbers=["changelog rows", *(f"{layer.name} rows" for layer in layers)])
    changes: Counter[TableId] = Counter()
    for row in pipeline.ledger.window_tables():
        changes[row.table] += row.kept
    pauses = paused_here(pipeline)
    paused = {name for name, pause in pauses.items() if not pause.is_removed}
    for name in (one for one in known if one in paused or one not in pauses):  # others were removed
        if name in paused:  # its tables may be the reason why, and are not opened
            table.add_row(str(name), f"{changes[name]:,}", *("paused" for _ in layers))
            continue
        sizes = one_by_one(
            [layer for layer in layers if layer.takes(pipeline.settings, name)],
            partial(_rows_of, pipeline, name),
            named=lambda layer, name=name: f"The size of the {layer.name} of {name}",  # type: ignore[misc]
        )
        closing.failures += sizes.failures.values()
        shown = ["?" if layer in sizes.failures else sizes.results.get(layer, "-") for layer in layers]
        table.add_row(str(name), f"{changes[name]:,}", *shown)
    console.print(table)


def _rows_of(pipeline: Pipeline, table: TableId, layer: Layer) -> str:
    size = pipeline.lake.size(pipeline.table_path(layer.name, table))
    return "-" if size is None else f"{size.rows:,}"


def _show_conversions(pipeline: Pipeline, console: Console, _: Closing) -> None:
    for name, columns in known_tables(pipeline).items():
        for column in converted_columns(columns):
            console.print(f"{name}: {column}", markup=False)


def _show_removed_rows(pipeline: Pipeline, console: Console, _: Closing) -> None:
    for line in removed_lines(pipeline.ledger.removed_rows()):
        console.print(line, markup=False, soft_wrap=True)


def _name_kept_windows(pipeline: Pipeline, console: Console, _: Closing) -> None:
    name_kept_windows(pipeline, Place.COMMAND, lambda line: console.print(line, markup=False, soft_wrap=True))


def _keep_copies(pipeline: Pipeline, console: Console, _: Closing) -> None:
    # No Spark: an idle run needs no Java.
    mend_copies(pipeline, spark=this_process, progress=lambda line: console.print(line, markup=False, soft_wrap=True))


def _look_at_tables(pipeline: Pipeline, _: Console, closing: Closing) -> None:
    closing.failures += unusable_tables(pipeline)


def _judge(pipeline: Pipeline, console: Console, closing: Closing) -> None:
    failing = [judged for judged in judge_ledger(pipeline) if judged.sentence]
    closing.failed_checks += len(failing)
    strange = dict[str, Problem]()
    for judged in failing:
        found = next((problem for problem in judged.problems if problem.code is ProblemCode.FORMAT), None)
        if found is None:
            console.print(f"{judged.partition}: {judged.sentence}")
        else:
            strange[judged.partition] = found
    if strange:
        closing.has_another_format = True
        problems = tuple(strange.values())
        console.print(_of_another_format(pipeline, closing.config, problems), markup=False, soft_wrap=True)


def _of_another_format(pipeline: Pipeline, config: Path, problems: Sequence[Problem]) -> str:
    """Return the line of the configuration to change, and what the messages look like."""
    name, settings = pipeline.name, pipeline.settings
    place = ("subscriptions", name, "format")
    told, fix = problems[0].detail, "mend it, or the file in schema:"
    with suppress(SourceError, WireFormatError, FileNotFoundError):  # what the runs have seen stands in the ledger
        found = recognise_source(pipeline.source, settings)
        if found.contradicts(settings.format):
            told, fix = found.sentence, way_out(found)
    said = f"the messages of {len(problems)} partitions are not of the format {settings.format}: {told}"
    again = "nothing is lost: the next dts-assets run decodes all of them again, from raw_envelopes"
    return f"{mistake_at(config, place, said, fix)}; {again}"


def _look_at_keys(pipeline: Pipeline, console: Console, closing: Closing) -> None:
    found = find_repeated_keys(pipeline, most_rows=_KEYS_LOOKED_AT)
    closing.failures += found.failures.values()
    for name, count in found.results.items():
        if count:
            closing.failed_checks += 1
            console.print(f"{name}: {count:,} keys stand in its snapshot more than once; see dts-assets keys --help")


def _show_pauses(pipeline: Pipeline, console: Console, closing: Closing) -> None:
    for name, pause in paused_here(pipeline).items():
        if pause.is_removed:
            continue
        closing.failed_checks += 1
        console.print(
            f"{name} stands still since {pause.since:%Y-%m-%d %H:%M} UTC, paused by a {pause.by.value}: {pause.reason}; mend it, "
            f"then {resume_command(name)}",
            markup=False,
            soft_wrap=True,
        )


def _show_unproven(pipeline: Pipeline, console: Console, closing: Closing) -> None:
    found = unproven_tables(pipeline)
    closing.failures += found.failures.values()
    for name, since in found.results.items():
        closing.failed_checks += 1
        closing.unproven.add(name)
        console.print(
            f"{name}: its snapshot is not proven since {since}; it is proven again once the table is copied anew "
            f"(dts-assets resync {pipeline.name} {shlex.quote(str(name))}) or created anew at the source",
            markup=False,
            soft_wrap=True,
        )


def _show_unseen(pipeline: Pipeline, console: Console, closing: Closing) -> None:
    found = unseen_now(pipeline)
    if found.reasons and found.are_accepted:
        names = ", ".join(map(str, found.reasons))
        said = (
            f"{pipeline.name}: foreign keys change rows without events of {names}, which source: foreign_keys accepts"
        )
        console.print(said, markup=False, soft_wrap=True)
        return
    for name, since in found.reasons.items():
        closing.failed_checks += 1
        closing.unproven.add(name)
        repair = f"dts-assets verify {pipeline.name} --table {shlex.quote(str(name))} --repair"
        console.print(
            f"{name}: its snapshot is not proven since {since}; {repair} takes the rows that differ and ends this, "
            f"and source: foreign_keys: accepted leaves them as they are",
            markup=False,
            soft_wrap=True,
        )


def _name_unmatched(pipeline: Pipeline, console: Console, _: Closing) -> None:
    for one in unmatched_settings(pipeline):
        console.print(f"{pipeline.name}: {one}", markup=False, soft_wrap=True)


_CHECKS: Mapping[str, Callable[[Pipeline, Console, Closing], None]] = {
    "rows": _show_rows,
    "converted columns": _show_conversions,
    "removed rows": _show_removed_rows,
    "kept windows": _name_kept_windows,
    "copies": _keep_copies,
    "tables": _look_at_tables,
    "windows": _judge,
    "keys": _look_at_keys,
    "pauses": _show_pauses,
    "statements": _show_unproven,
    "foreign keys": _show_unseen,
    "settings": _name_unmatched,
}
