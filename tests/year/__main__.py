"""``python -m tests.year``: a year of troubles in minutes, judged by laws. Exit code 1 if one is broken."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import timedelta

from tests.year.plans import plan
from tests.year.play import make_small, play, report


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.year", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first year; the next ones count on")
    parser.add_argument("--days", type=float, default=365.0, help="how long it lasts (default 365)")
    parser.add_argument("--hours", type=int, default=12, help="of a window: 1, 2, 3, 4, 6, 8, 12 or 24 (default 12)")
    parser.add_argument("--worlds", type=int, default=1, help="how many years, each with a seed of its own (default 1)")
    parser.add_argument("--events", help="only these events of the seed's plan, 0,4,7: to see a finding again")
    parser.add_argument("--as-found", action="store_true", help="do not make a failing plan shorter")
    chosen = parser.parse_args()
    began, every, wrong = time.monotonic(), timedelta(hours=chosen.hours), 0

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    for seed in range(chosen.seed, chosen.seed + chosen.worlds):
        numbered = list(enumerate(plan(seed, chosen.days)))
        if chosen.events is not None:
            wanted = {int(number) for number in chosen.events.split(",") if number.isdecimal()}
            numbered = [one for one in numbered if one[0] in wanted]
        say(f"seed {seed}: {len(numbered)} events in {chosen.days:.0f} days")
        events = [event for _, event in numbered]
        played = play(seed, events, days=chosen.days, every=every, say=say)
        if played.broken:
            wrong += 1
            if not chosen.as_found:
                small, again = make_small(seed, events, kind=played.kind, days=chosen.days, every=every, say=say)
                numbered = [one for one in numbered if any(one[1] is event for event in small)]
                played = again or played
            for line in report(seed, numbered, played):
                say(line)
        say(played.line())
    say(f"{chosen.worlds} years of {chosen.days:.0f} days, {wrong} with a broken law")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
