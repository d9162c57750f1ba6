"""``python -m tests.meetings``: features that meet over random workloads for some minutes. Exit code 1 if anything is wrong."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.dts_emulator.server_lives import life_recorder
from tests.meetings.features import NEEDS, Feature
from tests.meetings.machine import LENGTH, drawn_case, make_small, play


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.meetings", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first case; the next ones count on")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no further case is begun (default 10)")
    parser.add_argument("--length", type=int, default=LENGTH, help=f"statements of a life (default {LENGTH})")
    parser.add_argument("--features", help="only these features in every case: merge,failover")
    parser.add_argument(
        "--always", default="", help="these features in every case, beside those that are drawn: filter,minimal"
    )
    parser.add_argument("--go-on", action="store_true", help="do not end at the first finding")
    parser.add_argument("--as-found", action="store_true", help="do not make a finding smaller")
    chosen = parser.parse_args()
    features = None if chosen.features is None else frozenset(map(Feature, chosen.features.split(",")))
    always = [Feature(one) for one in chosen.always.split(",") if one]
    lacking = {NEEDS[one] for one in features or () if one in NEEDS} - (features or frozenset())
    if lacking:
        parser.error(f"--features: {', '.join(sorted(lacking))} has to be among them")
    began, cases, findings, counts = time.monotonic(), 0, 0, Counter[str]()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    with life_recorder() as recorder:
        seed = chosen.seed
        while cases == 0 or time.monotonic() - began < 60 * chosen.minutes:
            case = drawn_case(recorder, seed, length=chosen.length, features=features, always=always)
            say(
                f"seed {seed}: {', '.join(sorted(case.features))}; {len(case.said)} statements, {len(case.steps)} steps"
            )
            played = play(recorder, case)
            cases, counts, seed = cases + 1, counts + played.counts, seed + 1
            if not played.faults:
                continue
            findings += 1
            for fault in played.faults[:4]:
                say(f"  {fault}")
            if not chosen.as_found:
                case, played = make_small(recorder, case, played.signs, say=say)
                for fault in played.faults[:4]:
                    say(f"FOUND with seed {case.seed}: {fault}")
                print(case.script(), flush=True)
            if not chosen.go_on:
                break
    for name, count in counts.most_common():
        say(f"  {count:7} {name}")
    say(f"{cases} cases, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
