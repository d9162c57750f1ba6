"""Errors of settings that turn out to be wrong once tables are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors import DtsAssetsError


@dataclass(eq=False)
class UnmatchedRulesError(DtsAssetsError):
    """Rules on columns or rows that match nothing, where ``strict_rules`` is true.

    ``rules`` are clauses: "columns: shopdb.customer.email matches nothing".
    """

    exit_code: ClassVar[int] = 2

    subscription: str
    rules: tuple[str, ...]

    def message(self) -> str:
        """Return the rules and the way out."""
        return (
            f"No table of {self.subscription} is made, because strict_rules is true and rules match nothing that is known: "
            f"{'. '.join(self.rules)} Mend them in the configuration, or write strict_rules: false."
        )
