"""The shortest part of a random life that still ends otherwise than its server.

``python -m tests.dts_emulator.shrunk_lives many 3 60`` takes 60 statements of the third life of the kind ``many``.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from tests.dts_emulator.judged_snapshots import faults_of
from tests.dts_emulator.random_lives import KINDS, RandomLife
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import ELSEWHERE, Life, LifeRecorder, life_recorder
from tests.dts_emulator.ways import EVERYWHERE, WAYS
from tests.stateful.shrinking import shortest

Spoken = tuple[datetime, str, str]


def spoken(life: Life) -> list[Spoken]:
    """The statements of a life with their times; those of another session come when it commits."""
    return [(one.at, "d" if one.database == ELSEWHERE else one.database, one.sql) for one in life.moments]


def lived(recorder: LifeRecorder, statements: Sequence[Spoken], *, strict: bool, image: str) -> Life | None:
    """The life of some statements; those that the server refuses are left out. None without any."""
    recorder.begin(("d", "e"), strict=strict, image=image)
    for at, database, sql in statements:
        recorder.go_to(at)
        if not recorder.say(sql, database):
            break
    return recorder.end() if recorder.has_lived else None


def sign(fault: str) -> str:
    """What kind of fault it is: its words without names and values."""
    return re.sub(r"\(.*|\[.*|\d+|^\S+", "", fault).strip()


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("seed", type=int)
@click.argument("count", type=int)
@click.option("--image", default="FULL")
@click.option("--way", default=0)
def main(kind: str, seed: int, count: int, image: str, way: int) -> None:
    """Print the shortest part of a life that has a fault of the same kind as the whole life's first one."""
    with life_recorder() as recorder:
        life = RandomLife(recorder, seed, KINDS[kind], image=image).lived(count)

        def faults(part: Life | None) -> list[str]:
            if part is None:
                return []
            with tempfile.TemporaryDirectory() as folder:
                harness = recorded("dts-protobuf", part.transactions, Path(folder), **EVERYWHERE)
                try:
                    WAYS[way](harness, part, seed)
                except Exception as error:
                    return [f"- {type(error).__name__}: {error}"]
                return faults_of(harness, part.moments[-1]).faults

        signs = {sign(one) for one in faults(life)[:1]}
        if not signs:
            click.echo("the life ends as its server", err=True)
            return

        def fails(statements: Sequence[Spoken]) -> bool:
            found = faults(lived(recorder, statements, strict=seed % 2 == 0, image=image))
            return bool(signs & set(map(sign, found)))

        whole = spoken(life)
        if not fails(whole):
            click.echo("without a second session there is no fault", err=True)
            return
        least = lived(recorder, shortest(whole, fails), strict=seed % 2 == 0, image=image)
        assert least is not None
        click.echo("\n".join([least.script(), *faults(least)]))


if __name__ == "__main__":
    main()
