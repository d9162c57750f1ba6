"""``python -P child.py``: makes lakes with the code that Python finds first, without a JVM.

Jobs come on standard input as JSON (``tests/versions/made_by.py`` writes them), and the last line of standard output has what was
found. The code of several commits runs this file. So it names functions and not their modules: it searches for the module that
defines them. It needs the standard library alone.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

ROUNDS = 50
"""The most rounds of work until nothing is left."""


@cache
def sources() -> dict[str, str]:
    """Return the text of every module of the package by the module's name."""
    folder = Path(str(importlib.import_module("dts_assets").__file__)).parent
    return {
        ".".join(("dts_assets", *path.relative_to(folder).with_suffix("").parts)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
    }


@cache
def defined(*names: str) -> Any:
    """Return the function, class or value that the code defines under the first of some names that it has.

    A later commit that gives a function another name adds that name to the call.
    """
    for name in names:
        pattern = re.compile(rf"^(?:def|class) {name}\b|^{name}(?:: [^=\n]+)? = ", re.MULTILINE)
        found = [module for module, text in sources().items() if pattern.search(text)]
        if len(found) == 1:
            return getattr(importlib.import_module(found[0].removesuffix(".__init__")), name)
        if found:
            raise LookupError(f"{name} is defined in {', '.join(found)}; tests/versions/child.py needs one of them")
    raise LookupError(f"no module defines {' or '.join(names)}; add its present name in tests/versions/child.py")


class Maker:
    """A subscription of a configuration, and what its flows said."""

    def __init__(self, config: str, subscription: str) -> None:
        self.config, self.subscription = Path(config), subscription
        self.lines: list[str] = []

    def pipeline(self) -> Any:
        return defined("open_pipeline")(defined("load_settings")(self.config), self.subscription)

    def ask(self) -> dict[str, list[str]]:
        """Return the work that the lake lacks."""
        work = defined("find_work")(self.pipeline())
        cells = {"ingest": work.ingest, "entries": work.stale_entries, "live": work.live}
        found = {name: sorted(map(str, some)) for name, some in cells.items()}
        return {**found, "tables": [window.key for window in work.tables]}

    def settle(self) -> None:
        """Do the work that the lake lacks until nothing is left, of open windows too."""
        for _ in range(ROUNDS):
            work = defined("find_work")(self.pipeline())
            if work.nothing and not work.live:
                return
            for run in work.ingest_runs():
                self.ingest(run.span, is_stored=run.entries_only)
            for windows in defined("find_work")(self.pipeline()).tables_runs():
                self.flow("materialize_tables", windows)
        raise RuntimeError(f"after {ROUNDS} rounds there is work left: {self.ask()}")

    def windows(self, first: int, last: int) -> None:
        """Make some windows, counted from zero, with everything in them, whether they are stored or not."""
        pipeline = self.pipeline()
        some = tuple(pipeline.grid.at(number) for number in range(first, last + 1))
        self.ingest(defined("Span")(tuple(pipeline.kafka_partitions), some), is_stored=False)
        self.flow("materialize_tables", some)

    def read(self) -> None:
        """Read the messages of all stored windows again."""
        pipeline = self.pipeline()
        some = tuple(sorted({row.window for row in pipeline.ledger.raw_windows()}))
        self.flow("materialize_raw", defined("Span")(tuple(pipeline.kafka_partitions), some))

    def add(self, source: str, folder: str) -> None:
        """Let a capture grow by the files of a folder."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path in sorted(Path(source).iterdir()):
            shutil.copy2(path, folder)

    def copy(self) -> None:
        """Copy the tables that the configuration names, from files."""
        pipeline = self.pipeline()
        work = defined("Copying")(
            pipeline, defined("bootstrap_of")(pipeline), defined("ThisProcess"), self.lines.append
        )
        defined("copy_tables")(work, defined("CopyKind")("bootstrap"))

    def remove(self, database: str, table: str) -> None:
        """Take a table out of the lake."""
        tables = [defined("TableId")(database, "", table)]
        defined("remove_tables")(self.pipeline(), tables, progress=self.lines.append)

    def ingest(self, span: Any, *, is_stored: bool) -> None:
        if not is_stored:
            self.flow("materialize_raw", span)
        self.flow("materialize_entries", span)

    def flow(self, name: str, what: Any) -> None:
        defined(name)(self.pipeline(), what, spark=defined("ThisProcess"), progress=self.lines.append)


def made(config: str, subscription: str, steps: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Make a lake in some steps, and return its answers and what its flows said."""
    maker, answers = Maker(config, subscription), []
    known: dict[str, Callable[..., Any]] = {
        name: getattr(maker, name) for name in ("ask", "settle", "windows", "read", "add", "copy", "remove")
    }
    for word, *arguments in steps:
        try:
            found = known[word](*arguments)
        except Exception as error:
            raise RuntimeError(f"{config}: the step {word} failed") from error
        if found is not None:
            answers.append(found)
    return {"answers": answers, "lines": maker.lines}


def main() -> int:
    """The command."""
    jobs = json.load(sys.stdin)
    lakes = [made(one["config"], one["subscription"], one["steps"]) for one in jobs]
    code = {"package": importlib.import_module("dts_assets").__file__, "version": defined("CODE_VERSION")}
    sys.stdout.write("\n" + json.dumps({**code, "lakes": lakes}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
