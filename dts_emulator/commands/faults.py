"""``dts-assets faults``: a recorded topic with faults in it, and the list of their evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from dts_emulator.commands.laboratory import laboratory_command
from dts_emulator.faults.injection import PLAN_FILE, Fault, Kind, inject

_SHOWN = 40
"""Faults shown one by one; the plan has them all."""

_WIDTH = 160
"""Columns of output where it is no terminal."""


def _kinds(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[Kind, ...]:
    known, names = {kind.value for kind in Kind}, [name.strip() for name in value.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{', '.join(unknown) or 'nothing'} is no kind of fault; there are {', '.join(Kind)}")
    return tuple(Kind(name) for name in names)


@click.command("faults")
@click.argument("capture", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same faults.")
@click.option(
    "--kinds",
    default=",".join(Kind),
    callback=_kinds,
    show_default=True,
    help="Kinds of faults, by commas; they take turns.",
)
@click.option("--count", default=len(Kind), show_default=True, type=click.IntRange(min=1), help="How many faults.")
@click.option("--keep-offsets", is_flag=True, help="Leave holes in the offsets where messages are gone.")
@laboratory_command
def faults(capture: Path, out: Path, *, seed: int, kinds: tuple[Kind, ...], count: int, keep_offsets: bool) -> None:
    """Write a recorded topic with faults in it, and the evidence that a reader must find."""
    found = inject(capture, out, seed=seed, kinds=kinds, count=count, keep_offsets=keep_offsets)
    console = Console(highlight=False)
    _show(found, out, console if console.is_terminal else Console(highlight=False, width=_WIDTH))


def _show(found: Sequence[Fault], out: Path, console: Console) -> None:
    table = Table(title="Faults, by where they show", title_justify="left")
    for column in ("kind", "partition", "offsets", "message time", "found by", "what"):
        table.add_column(column, justify="right" if column in ("partition", "offsets") else "left", overflow="fold")
    for fault in found[:_SHOWN]:
        row = (_offsets(fault), f"{fault.time:%Y-%m-%d %H:%M:%S}", fault.found_by.value, fault.detail)
        table.add_row(fault.kind.value, f"p{fault.partition:02d}", *row)
    console.print(table)
    if len(found) > _SHOWN:
        console.print(f"... and {len(found) - _SHOWN} more.")
    counts = Counter(fault.found_by.value for fault in found)
    console.print(", ".join(f"{by} {number}" for by, number in sorted(counts.items())))
    console.print(f"Capture and plan: {out} ({PLAN_FILE})", soft_wrap=True, markup=False)


def _offsets(fault: Fault) -> str:
    if fault.first_offset is None:
        return "end"
    return f"{fault.first_offset}" + (f" to {fault.last_offset}" if fault.last_offset != fault.first_offset else "")
