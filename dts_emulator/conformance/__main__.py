"""``python -m dts_emulator.conformance FOLDER``: write the conformance suite, or judge the results of a consumer with it.

python -m dts_emulator.conformance ./suite
python -m dts_emulator.conformance --judge ./suite --results ./mine
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from dts_emulator.conformance.judge import Outcome, Verdict, judge
from dts_emulator.conformance.reading import read_suite
from dts_emulator.conformance.server_cases import server_cases
from dts_emulator.conformance.writing import VERSION, digest_of_plain_files, write_suite
from dts_emulator.errors import EmulatorError

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(help="Write the conformance suite into FOLDER, or judge a consumer's results with --judge.")
@click.argument("folder", type=_FOLDER, required=False)
@click.option("--judge", "suite", type=_FOLDER, help="The folder of a suite, by which --results are judged.")
@click.option(
    "--results", type=click.Path(path_type=Path, file_okay=False, exists=True), help="The folder of a consumer's rows."
)
@click.option("--with-servers", is_flag=True, help="Add cases that a MariaDB judges; it is started for them.")
def main(*, folder: Path | None, suite: Path | None, results: Path | None, with_servers: bool) -> None:
    """Do one of both. A difference ends with 1, results that have nothing of any format with 2.

    Raises:
        click.ClickException: A folder or a file cannot be used.
        click.UsageError: The arguments fit neither.
    """
    if (folder is None) == (suite is None) or (suite is None) != (results is None):
        raise click.UsageError("give FOLDER to write a suite, or --judge and --results")
    try:
        if folder is not None:
            count = write_suite(folder, more=server_cases() if with_servers else ())
            click.echo(f"{count} cases in {folder}, version {VERSION}, plain files {digest_of_plain_files(folder)}")
        elif suite is not None and results is not None:
            sys.exit(report(judge(read_suite(suite), results)))
    except EmulatorError as error:
        raise click.ClickException(str(error)) from error


def report(verdicts: tuple[Verdict, ...]) -> int:
    """Print a table by case and return the exit code."""
    width = max(len(one.case.label) for one in verdicts)
    for one in verdicts:
        if one.outcome is not Outcome.NOT_RUN:
            click.echo(f"{one.case.label:{width}}  {one.outcome.value}  {'; '.join(one.differences)}".rstrip())
    counts = Counter(one.outcome for one in verdicts)
    click.echo(f"{counts[Outcome.PASS]} pass, {counts[Outcome.FAIL]} fail, {counts[Outcome.NOT_RUN]} not run")
    if counts[Outcome.FAIL]:
        return 1
    return 0 if counts[Outcome.PASS] else 2


if __name__ == "__main__":
    main()
