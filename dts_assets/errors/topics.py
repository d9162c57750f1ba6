"""Errors of the topics of a subscription."""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.errors import IncompatibleLakeError


@dataclass(eq=False)
class OtherTopicsError(IncompatibleLakeError):
    """Topics that are not those of the lake, with others added at the end.

    ``stored`` and ``configured`` name them with their numbers of partitions: "shop (4), shop-ddl (1)".
    """

    setting: str = "topics"

    def message(self) -> str:
        """Return both lists and the way out."""
        return (
            f"The topics of subscription {self.subscription} are {self.configured}, but the lake was built with {self.stored}, "
            f"and its Kafka partitions are numbered through them. List these first, in this order and with as many partitions as "
            f"then; others may follow. For other topics use another subscription name, whose tables start empty."
        )
