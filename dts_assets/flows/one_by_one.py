"""Work on subscriptions, tables or checks, of which one that fails ends no other.

A step of a run that makes tables has more to decide: :mod:`dts_assets.flows.apart` pauses tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dts_assets.model.failures import UNEXPECTED, Failure
from dts_assets.stages.isolation import fault_of
from dts_assets.store.contention import explained_trouble

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class OneByOne(Generic[Item, Result]):
    """The results of the items that were done, and the failures of the others."""

    results: Mapping[Item, Result] = field(default_factory=dict)
    failures: Mapping[Item, Failure] = field(default_factory=dict)


def one_by_one(
    items: Iterable[Item],
    step: Callable[[Item], Result],
    *,
    named: Callable[[Item], str],
    side_by_side: int = 1,
    through: type[Exception] | tuple[()] = (),
) -> OneByOne[Item, Result]:
    """Do a step for every item, whatever becomes of the others, some ``side_by_side``.

    ``named`` gives the subject of a step for a sentence: "The size of shop.entries". Errors of the class ``through`` concern all
    items, and are raised.
    """

    def attempt(item: Item) -> tuple[Result] | Failure:
        try:
            return (step(item),)
        except through:
            raise
        except Exception as error:
            return failure_of(error, named(item))

    items = list(items)
    with ThreadPoolExecutor(side_by_side) as pool:
        done = dict(zip(items, (map if side_by_side == 1 else pool.map)(attempt, items), strict=True))
    return OneByOne(
        {item: one[0] for item, one in done.items() if not isinstance(one, Failure)},
        {item: one for item, one in done.items() if isinstance(one, Failure)},
    )


def failure_of(error: Exception, subject: str, *, exit_code: int = UNEXPECTED) -> Failure:
    """Return what people are told of an error.

    An error for people keeps its sentence and its exit code. Of any other the sentence has the class and the line, and the
    ``subject`` that was not finished: its own text may hold a value.
    """
    known = explained_trouble(error)
    if known is not None:
        return Failure(str(known), known.exit_code)
    return Failure(
        f"{subject} could not be finished: {fault_of(error)}. This is a fault of dts-assets: please report this line.",
        exit_code,
    )
