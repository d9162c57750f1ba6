"""Steps that are done table by table, so that an error at one table leaves all others be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from dts_assets.errors import DtsAssetsError, LakeTableError
from dts_assets.errors.origins import concerns_table
from dts_assets.errors.tables import SharedFaultError
from dts_assets.model.tables import TableId
from dts_assets.planning.pauses import Fault, shared_fault
from dts_assets.stages.isolation import fault_of

Result = TypeVar("Result")

SIDE_BY_SIDE = 4
"""Tables worked on at once: most of the time a commit is waited for."""


@dataclass(frozen=True, slots=True)
class Apart(Generic[Result]):
    """The results of a step by table, and the faults of the tables for which it failed."""

    results: Mapping[TableId, Result]
    faults: Mapping[TableId, Fault]


def do_apart(
    layer: str,
    tables: Iterable[TableId],
    step: Callable[[TableId], Result],
    *,
    busy: Collection[TableId] | None = None,
) -> Apart[Result]:
    """Do a step of a layer for every table, some tables side by side.

    ``busy`` are the tables for which the step has work (None: all). If they all fail in the same way, no table is to blame.

    Raises:
        SharedFaultError: All busy tables failed in the same way.
        Exception: A step failed with an error that concerns the run and not its table.
    """
    tables = list(tables)
    errors: dict[TableId, Exception] = {}

    def attempt(table: TableId) -> tuple[Result] | Fault:
        try:
            return (step(table),)
        except Exception as error:
            fault = fault_at(layer, error)
            errors[table] = error
            return fault

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        done = dict(zip(tables, pool.map(attempt, tables), strict=True))
    faults = {table: one for table, one in done.items() if isinstance(one, Fault)}
    refuse_shared(tables if busy is None else busy, faults, cause=next(iter(errors.values()), None))
    return Apart({table: one[0] for table, one in done.items() if not isinstance(one, Fault)}, faults)


def fault_at(layer: str, error: Exception) -> Fault:
    """Return the fault of a table that an error stands for.

    It holds no text of a library, since that may hold a value; an error of our tree holds none.

    Raises:
        Exception: ``error`` itself, if it concerns the run and not one table.
    """
    if not concerns_table(error):
        raise error
    # Without a way out of its own such an error is a fault of ours, which may be one of all tables.
    is_own = isinstance(error, LakeTableError) and error.way_out != LakeTableError.way_out
    return Fault(layer, fault_of(error), str(error) if isinstance(error, DtsAssetsError) else "", is_own)


def refuse_shared(
    tried: Collection[TableId], faults: Mapping[TableId, Fault], *, cause: Exception | None = None
) -> None:
    """Refuse to pause tables that have all failed in the same way.

    Raises:
        SharedFaultError: All tables that were tried failed in the same way, and there are several.
    """
    fault = shared_fault(tried, faults)
    if fault is not None:
        raise SharedFaultError(fault.layer, len(faults), fault.place) from cause
