"""``python scripts/check_port.py 3000 Dagster``: one sentence and exit code 13 if something listens on that port already."""

from __future__ import annotations

import socket
import sys

from dts_assets.errors import PortInUseError


def require_free(port: int, *, what: str) -> None:
    """Try to listen on a port of this machine.

    Raises:
        PortInUseError: Another program listens there.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a port just left is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise PortInUseError(port, what=what) from None


def main() -> int:
    """Run the command."""
    try:
        require_free(int(sys.argv[1]), what=" ".join(sys.argv[2:]) or "the server")
    except PortInUseError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
