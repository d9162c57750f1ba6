"""The reload that brings new tables into the graph.

Dagster reads definitions only when it loads a code location. Nothing in Dagster tells a sensor the address of the UI. Where
``DTS_ASSETS_UI`` names it, a sensor asks the UI for the reload, as its button would. Otherwise a person presses the button.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import dagster as dg

from dts_assets.defs.table_assets import graph_tables
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
"""Seconds to wait for an answer. A reload takes longer, and replaces the process that has asked for it."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The answer to a request for a reload: whether the UI took it on, and a clause."""

    taken: bool
    said: str


def reload_code_location(address: str) -> Reload:
    """Ask the UI at ``address`` to reload the code location. Errors become part of the answer."""
    import urllib.request  # here and not above: every process of Dagster loads definitions, and few ask for a reload

    body = json.dumps({"query": _MUTATION, "variables": {"location": LOCATION}}).encode()
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
    return Reload(False, f"the UI at {address} could not reload {LOCATION} ({found.get('__typename', 'no answer')})")


@dataclass
class TableReloader:
    """The asker for reloads, when the registry has tables that the loaded definitions lack.

    ``shown`` are the table assets of the definitions with which it is made; a sensor calls it at each tick. It needs no cursor: a
    reload starts a new process, whose definitions have the tables. It remembers for which tables a reload was taken on. So a
    process that is not replaced (a daemon with a code server of its own) asks once for each set of tables. A UI that did not
    answer is asked again at the next tick.
    """

    subscription: Subscription
    address: str | None
    shown: frozenset[dg.AssetKey]
    taken: frozenset[dg.AssetKey] = frozenset()

    def reload_if_new_tables(self) -> str | None:
        """Ask for a reload if the graph lacks tables, and return a sentence about it; else None."""
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
