"""``python scripts/check_port.py 3000 Dagster``: one sentence and exit code 13 if something listens on that port already."""

from __future__ import annotations

import sys

from dts_assets.errors.machine import PortInUseError
from dts_assets.settings.values import is_port
from dts_assets.store.machine import require_free_port

USAGE = 2


def main(port: str, *what: str) -> int:
    """Look at the port; the exit code."""
    if not is_port(port):
        sys.stderr.write(f"PORT={port} is no port: write a number from 1 to 65535, as in make dev PORT=3001.\n")
        return USAGE
    try:
        require_free_port(int(port), what=" ".join(what) or "the server")
    except PortInUseError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
