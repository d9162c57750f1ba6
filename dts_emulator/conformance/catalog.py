"""The list of all cases. A room that adds cases adds its tuple here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dts_emulator.conformance.change_cases import CHANGE_CASES
from dts_emulator.conformance.delivery_cases import DELIVERY_CASES
from dts_emulator.conformance.document_cases import DOCUMENT_CASES
from dts_emulator.conformance.expected import Case
from dts_emulator.conformance.generated_cases import GENERATED_CASES
from dts_emulator.conformance.postgresql_cases import POSTGRESQL_CASES
from dts_emulator.conformance.value_cases import VALUE_CASES

CASES: tuple[Case, ...] = (
    *VALUE_CASES, *CHANGE_CASES, *DELIVERY_CASES, *POSTGRESQL_CASES, *GENERATED_CASES, *DOCUMENT_CASES,
)  # fmt: skip


def places(cases: Sequence[Case] = CASES) -> Iterator[tuple[str, Case]]:
    """Yield each case in each of its formats, format by format."""
    names = dict.fromkeys(name for case in cases for name in case.formats)
    yield from ((name, case) for name in names for case in cases if name in case.formats)
