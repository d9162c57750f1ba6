"""``make live-screenshots``: a live pipeline, looked at by a real browser after some minutes, as docs/images/live-*.png."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from dts_assets.errors import DtsAssetsError
from dts_emulator.live.live_stack import LiveOptions, LiveStack, live_stack
from dts_emulator.machine.signals import interrupted_by_signals
from scripts.screenshots import HEIGHT, Page, ScreenshotError, browser, find_browser, until

MINUTES = 5
"""The time before the first picture: some windows have closed then, and plots have points."""


def run_that_follows(stack: LiveStack) -> str:
    """Return the run that follows live."""
    query = '{ runsOrError(filter: {pipelineName: "live_live"}, limit: 1) { ... on Runs { results { runId } } } }'
    return str(stack.ask(query)["runsOrError"]["results"][0]["runId"])


def look(stack: LiveStack, page: Page) -> None:
    """Take the pictures."""
    page.resize(HEIGHT)
    page.open(f"{stack.url}/runs/{run_that_follows(stack)}", shows=["live_follow_live"])
    page.click("Levels (5/6)")
    page.click("event")
    page.press("Escape")
    page.settle()
    page.picture("live-run")
    page.resize(1300)
    page.open(f"{stack.url}/asset-groups", shows=["_snapshot", "_changelog"])
    page.press("e", alt=True)  # expands all groups
    until(lambda: page.shows(["raw_envelopes", "checking"]), "the expanded graph", seconds=60)
    page.settle()
    page.picture("live-graph")
    page.resize(HEIGHT)
    page.open(f"{stack.url}/assets/live/entries?view=partitions", shows=["p00", "p03"])
    page.settle()
    page.picture("live-partitions")
    page.resize(1500)
    page.open(f"{stack.url}/assets/live/topic", shows=["Metadata"])
    for section in ("Status", "Description", "Plots"):
        page.click(section)
    until(lambda: page.shows(["lag_messages"]), "the plots of the topic", seconds=60)
    page.settle()
    page.picture("live-lag")


def main() -> int:
    """Run the command."""
    try:
        find_browser()
        with interrupted_by_signals(), ExitStack() as held:
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="live-", ignore_cleanup_errors=True)))
            stack = held.enter_context(
                live_stack(LiveOptions(folder / "live", every="1m", tables=8), say=lambda line: print_line(line))
            )
            end = time.monotonic() + MINUTES * 60
            while time.monotonic() < end:
                stack.check()
                time.sleep(2)
            with browser(folder) as page:
                look(stack, page)
    except (ScreenshotError, DtsAssetsError) as error:
        print_line(str(error))
        return 13
    return 0


def print_line(line: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
