"""The look at the settings of source databases, by which their binlogs tell less than all changes."""

from __future__ import annotations

from dts_assets.errors import DtsAssetsError
from dts_assets.model.source_settings import Finding
from dts_assets.model.tables import TableId
from dts_assets.planning.source_findings import find_findings
from dts_assets.settings.models import Settings, Subscription


def source_findings(subscription: Subscription) -> tuple[Finding, ...]:
    """Return what people should know of the source database of a subscription, which names one.

    Raises:
        MissingExtraError: The driver is not installed.
        DatabaseError: The server lets nobody in, refuses a question, or does not answer.
    """
    from dts_assets.sources.mysql_server import MySqlServer
    from dts_assets.sources.source_settings import source_settings

    jdbc = subscription.database
    assert jdbc is not None, "the caller looks whether a database is named"

    def takes(table: TableId) -> bool:
        routes = subscription.routes
        return routes.decoded_table(table) is not None if routes else subscription.tables.takes(table)

    with MySqlServer(jdbc.place).connected() as server:
        return find_findings(source_settings(server, takes), subscription.tables.exact)


def all_findings(settings: Settings) -> tuple[list[tuple[str, Finding]], list[DtsAssetsError]]:
    """Return the findings of all source databases by subscription, and the errors of those that cannot be asked."""
    found: list[tuple[str, Finding]] = []
    troubles: list[DtsAssetsError] = []
    for name, subscription in settings.subscriptions.items():
        if subscription.database is None:
            continue
        try:
            found += [(name, one) for one in source_findings(subscription)]
        except DtsAssetsError as trouble:
            troubles.append(trouble)
    return found, troubles
