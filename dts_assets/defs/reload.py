"""New tables in the graph: Dagster reads definitions once, so the code location has to be reloaded before it shows them.

Nothing in Dagster tells a sensor where the UI is; where ``DTS_ASSETS_UI`` does, a sensor asks it for the reload, as the button of
the UI would. Without it, a person presses the button.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field

import dagster as dg

from dts_assets.defs.table_assets import TableAsset, graph_tables
from dts_assets.settings.models import Subscription

LOCATION = "dts_assets"
"""The name that workspace.yaml gives the code location."""

_MUTATION = """\
mutation Reload($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) {
    __typename
    ... on PythonError { message }
  }
}"""

_WAIT_SECONDS = 2.0
"""A reload takes longer than that, and goes on without us: the process that asks is the one that is replaced by it."""


@dataclass(frozen=True, slots=True)
class Reload:
    """Whether a reload was taken on, and what came of it, as a clause."""

    taken: bool
    said: str


def reload_code_location(address: str, location: str = LOCATION) -> Reload:
    """Ask the UI at ``address`` to reload a code location. Raises nothing."""
    body = json.dumps({"query": _MUTATION, "variables": {"location": location}}).encode()
    request = urllib.request.Request(f"{address}/graphql", body, {"Content-Type": "application/json"})
    # The UI is near, whatever proxy the environment names for the rest of the world.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_WAIT_SECONDS) as answer:
            reply = json.load(answer)
    except TimeoutError:
        return Reload(True, "the code location is being reloaded")
    except (OSError, ValueError) as error:
        return Reload(False, f"the UI at {address} did not take the request to reload it ({type(error).__name__})")
    found = (reply.get("data") or {}).get("reloadRepositoryLocation") or {}
    if found.get("__typename") == "WorkspaceLocationEntry":
        return Reload(True, "the code location was reloaded")
    return Reload(False, f"the UI at {address} could not reload {location} ({found.get('__typename', 'no answer')})")


@dataclass
class TableReloader:
    """Asks for a reload when the registry has tables that the loaded definitions lack.

    Made when definitions are, called by a sensor at each tick. It needs no cursor: a reload starts a new process, whose
    definitions have the tables. This one remembers for which tables a reload was taken on, so that a process that is not replaced
    (a daemon with a code server of its own) asks once for each set of tables; a UI that did not answer is asked again at the next
    tick.
    """

    subscription: Subscription
    shown: frozenset[dg.AssetKey]
    address: str | None
    taken: frozenset[dg.AssetKey] = field(default=frozenset())

    @classmethod
    def of(cls, subscription: Subscription, shown: Iterable[TableAsset], address: str | None) -> TableReloader:
        """For definitions that show the tables ``shown``."""
        return cls(subscription, frozenset(asset.key for asset in shown), address)

    def reload_if_new_tables(self) -> str | None:
        """A sentence about new tables that the graph lacks, and what was done about it; None if it lacks none."""
        now = frozenset(asset.key for asset in graph_tables(self.subscription))
        new = sorted(key.to_user_string() for key in now - self.shown)
        if not new or now == self.taken:
            return None
        named = ", ".join(new[:5]) + (f" and {len(new) - 5} more" if len(new) > 5 else "")
        if self.address is None:
            return f"the graph does not show {named} yet: reload the code location"
        reload = reload_code_location(self.address)
        if reload.taken:
            self.taken = now
        return f"the graph does not show {named} yet: {reload.said}"
