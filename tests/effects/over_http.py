"""Effects of a REST catalog: each of pyiceberg's requests to it, and the answers that a gateway gives in its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from requests import PreparedRequest, Response, Session
from requests.exceptions import ConnectionError as CutConnection

from tests.effects.effects import Effects, Way

_CALLS = (
    ("GET", r"/v1/config", "config"),
    ("POST", r"/v1/namespaces", "create_namespace"),
    ("HEAD", r"/v1/namespaces/([^/]+)", "namespace_exists"),
    ("GET", r"/v1/namespaces/([^/]+)", "namespace_exists"),
    ("POST", r"/v1/namespaces/([^/]+)/tables", "create_table"),
    ("GET", r"/v1/namespaces/([^/]+)/tables/([^/]+)", "load_table"),
    ("POST", r"/v1/namespaces/([^/]+)/tables/([^/]+)", "commit_table"),
    ("DELETE", r"/v1/namespaces/([^/]+)/tables/([^/]+)", "drop_table"),
)
"""The requests that runs make: method, path, and the name of the call."""

_LANDS = ("create_namespace", "create_table", "commit_table", "drop_table")

_DONE = (500, 502, 503, 504, 504, 504)
_NOT_DONE = (403, 429, 500, 502, 503, 504)
"""What the answer is if the request was done, or was not; nobody can tell them apart by their number."""

_TAKEN = (409,)
"""The answer to a commit that lost, and to the second one of two where a gateway has sent it twice."""


def catch_requests(effects: Effects, patch: pytest.MonkeyPatch, uri: str) -> None:
    """Have all requests to the catalog at ``uri`` counted. Nothing but pyiceberg's catalog uses this library here."""
    send = Session.send

    def sent(session: Session, request: PreparedRequest, **named: Any) -> Response:
        if not str(request.url).startswith(uri):
            return send(session, request, **named)
        call, of = named_call(request)
        lands = call in _LANDS
        heard = _heard(effects, call, request)
        answer: Response = effects.request(
            f"{call} {of}", lambda: send(session, request, **named), lands=lands, heard=heard
        )
        return answer

    patch.setattr(Session, "send", sent)


def named_call(request: PreparedRequest) -> tuple[str, str]:
    """Return the call that a request is, and of which table or namespace."""
    path = urlsplit(str(request.url)).path
    for method, pattern, call in _CALLS:
        if request.method == method and (found := re.fullmatch(pattern, path)):
            return call, ".".join(unquote(part).replace("\x1f", ".") for part in found.groups())
    return "request", f"{request.method} {path}"


def _heard(effects: Effects, call: str, request: PreparedRequest) -> Callable[[Way], Response]:
    def heard(way: Way) -> Response:
        if way is Way.CUT:
            raise CutConnection("the connection was cut")
        codes = (_DONE if way is Way.UNHEARD else _NOT_DONE) + (_TAKEN if call == "commit_table" else ())
        answer = Response()
        answer.status_code = Random(f"{call} {effects.fails}").choice(codes)
        answer.request, answer.url = request, str(request.url)
        answer._content = b"<html><body>made up for a test</body></html>"  # a gateway knows nothing of Iceberg's errors
        return answer

    return heard
