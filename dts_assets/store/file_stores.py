"""The way to the files of one table, as a task takes it along.

It is the properties of the table's file store. A REST catalog may vend credentials with each table, which open the files of this
table alone and expire, often after an hour. So properties belong to a table, and not to the lake. A long run sends its tasks out
one job after the other: credentials that are about to expire are renewed when a task is pickled, by the process that has the
catalog. Workers never ask a catalog, and get none of its own secrets.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from dts_assets.errors import ExpiredCredentialsError
from dts_assets.settings.environment import set_where_unset
from dts_assets.store.catalog_properties import checksum_environment, of_file_stores
from dts_assets.store.contention import until_it_gets_through

RENEW_BEFORE = timedelta(minutes=15)
"""The time before their expiry from which credentials are renewed when a task is sent out.

A job is cut to take some seconds (``flows/spark_tasks.py``); a task of one huge window takes minutes. Amazon's own service issues
none for a shorter time.
"""

_ASKED_EVERY = 60.0
"""The least seconds between two questions for one table.

A catalog whose clock is behind would be asked for every task.
"""

_EXPIRY = re.compile(r"(?:^|[.-])expires-at(?:-ms)?(?:$|\.)")
_SAYS_EXPIRED = re.compile(r"ExpiredToken|TokenExpired|EXPIRED_TOKEN|token (?:\w+ ){0,3}expired", re.IGNORECASE)
"""Words of stores.

"expired" alone is none: an error names a path, and a table may be called so.
"""

_FIRST_BEYOND_DATES = 253_402_300_800_000
"""The first millisecond that no date of Python has."""


@dataclass(frozen=True, slots=True)
class FileStore:
    """The store of one table's files, with the properties by which a client opens it.

    ``properties`` may hold credentials, so nothing shows them; ``vended`` says that the catalog has vended them with this table.
    A store that was made from a table pickles with credentials that do not expire at once.
    """

    table: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    vended: bool = False
    credentials: VendedCredentials | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, table: Table) -> FileStore:
        """Return the store of a table's files, by what the catalog said when the table was loaded."""
        name, catalog = table.name(), table.catalog
        found = of_file_stores(table.io.properties)
        prepare_clients(found)
        if found == of_file_stores(catalog.properties):
            return cls(".".join(name), found)
        credentials = VendedCredentials(lambda: of_file_stores(catalog.load_table(name).io.properties), found)
        return cls(".".join(name), found, True, credentials)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Explain an error of the store that comes from expired credentials.

        Raises:
            ExpiredCredentialsError: The store has failed, and the vended credentials have expired.
            OSError: The store has failed for another reason.
            ArrowException: Arrow has failed for another reason.
        """
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            expires = expiry_of(self.properties)
            is_over = expires is not None and expires <= datetime.now(UTC)
            if self.vended and (is_over or _SAYS_EXPIRED.search(str(error))):
                raise ExpiredCredentialsError(self.table, expires) from None  # texts of stores may hold requests
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        properties = self.properties if self.credentials is None else self.credentials.current(self.table)
        return FileStore, (self.table, dict(properties), self.vended)


def prepare_clients(properties: Mapping[str, str]) -> None:
    """Tell clients that this process opens later what a store asks for.

    It goes into variables of the environment that nobody has set.
    """
    set_where_unset(checksum_environment(properties))


class VendedCredentials:
    """The properties that a catalog has vended with one table, renewed before they expire."""

    def __init__(
        self,
        ask: Callable[[], Mapping[str, str]],
        properties: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._properties, self._clock = ask, properties, clock
        self._expires, self._asked = expiry_of(properties), clock()
        self._lock = threading.Lock()  # several jobs are sent out at a time

    def current(self, table: str) -> Mapping[str, str]:
        """Return properties that last for :data:`RENEW_BEFORE`, if the catalog vends any that do.

        Raises:
            LakeChangeError: The catalog gave no answer for two minutes.
        """
        with self._lock:
            age = self._clock() - self._asked
            if is_renewal_due(self._expires, now=datetime.now(UTC), age=age):
                self._properties = until_it_gets_through(table, self._ask)
                self._expires, self._asked = expiry_of(self._properties), self._clock()
            return self._properties


def is_renewal_due(expires: datetime | None, *, now: datetime, age: float) -> bool:
    """Return whether credentials are to be renewed before a task gets them.

    ``expires`` is their expiry, None where the catalog did not name it; they are ``age`` seconds old.
    """
    if age < _ASKED_EVERY:
        return False
    return age >= RENEW_BEFORE.total_seconds() if expires is None else expires - now < RENEW_BEFORE


def expiry_of(properties: Mapping[str, str]) -> datetime | None:
    """Return the earliest expiry that properties name, in UTC; None without one.

    Catalogs name it in milliseconds since 1970: ``s3.session-token-expires-at-ms``, ``gcs.oauth2.token-expires-at``,
    ``adls.sas-token-expires-at-ms.<account>``.
    """
    named = [
        value for name, value in properties.items() if _EXPIRY.search(name) and value.isascii() and value.isdigit()
    ]
    times = [int(value) for value in named if len(value) <= len(str(_FIRST_BEYOND_DATES))]
    dates = [datetime.fromtimestamp(value / 1000, UTC) for value in times if value < _FIRST_BEYOND_DATES]
    return min(dates, default=None)
