"""Writes ``dts_assets/protocol/`` from the ``.proto`` files of this folder, or with ``--check`` says whether it is current."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
GENERATED = SOURCES.parent / "dts_assets" / "protocol"


def generate(into: Path) -> None:
    """Python code and type stubs of every ``.proto`` file, written to the folder ``into``."""
    sources = [path.name for path in sorted(SOURCES.glob("*.proto"))]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={into}", f"--pyi_out={into}", *sources]
    subprocess.run(command, cwd=SOURCES, check=True)


def outdated() -> list[str]:
    """Names of files in ``dts_assets/protocol/`` that differ from what the ``.proto`` files give, or are missing."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        return [
            fresh.name
            for fresh in sorted(Path(folder).iterdir())
            if not (GENERATED / fresh.name).is_file() or (GENERATED / fresh.name).read_bytes() != fresh.read_bytes()
        ]


def main() -> int:
    """The command; 1 if ``--check`` found files that are not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if the generated code is not current"
    )
    if not parser.parse_args().check:
        generate(GENERATED)
        return 0
    names = outdated()
    if names:
        print(f"Not current: {', '.join(names)} in dts_assets/protocol. Run: python proto/generate.py")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
