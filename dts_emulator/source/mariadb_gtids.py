"""MariaDB's GTIDs in the vendor's form.

MariaDB writes ``domain-server-sequence`` and counts the sequence per domain, whichever server wrote; the vendor's documents
show MySQL's ``uuid:n``. The rule here: the uuid is the version 5 UUID of ``domain-server`` in :data:`NAMESPACE`, n is the
sequence. The same transaction always has the same GTID, two servers never share a uuid, and for one server that wrote the
whole binlog n is contiguous from 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID, uuid5

from dts_assets.model.gtids import GtidSet

NAMESPACE = UUID("7d1f2f6e-52a3-5b0e-9c39-0d5c6f1a4b10")
"""The namespace of this mapping alone; a constant, so that a transaction has one GTID in all runs."""

_MARIADB = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """A MariaDB GTID by its three numbers."""

    domain: int
    server_id: int
    sequence: int

    @property
    def source(self) -> str:
        """The uuid that stands for domain and server."""
        return _uuid(self.domain, self.server_id)

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Return the GTID that MariaDB writes as ``domain-server-sequence``.

        Raises:
            ValueError: The text is no GTID of MariaDB.
        """
        found = _MARIADB.fullmatch(text)
        if not found:
            raise ValueError(f"{text!r} is no GTID of MariaDB: write domain-server-sequence")
        return cls(*map(int, found.groups()))

    def as_set(self) -> GtidSet:
        """Return the set of this one transaction."""
        return GtidSet.of([(self.source, self.sequence, self.sequence)])

    def __str__(self) -> str:
        return f"{self.source}:{self.sequence}"


@lru_cache(maxsize=1024)
def _uuid(domain: int, server_id: int) -> str:
    return str(uuid5(NAMESPACE, f"{domain}-{server_id}"))
