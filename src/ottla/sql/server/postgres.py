"""PostgreSQL's protocol on a node: who may come in, and statements in a session of each connection."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from ottla.sql.language.errors import SqlError
from ottla.sql.server.node import SqlNode
from ottla.sql.server.row_parts import RowParts
from ottla.sql.server.statements import Session, StatementError, Statements
from ottla.sql.wire.answers import SqlAnswers
from ottla.sql.wire.server import WireServer
from ottla.web.access_rules import Action
from ottla.web.authentication_settings import Method
from ottla.web.callers import CERTIFICATE
from ottla.web.errors import ApiError
from ottla.web.security import Security


def wire_server(
    security: Security, listener: str | None, node: SqlNode, rows: RowParts, statements: Statements
) -> WireServer:
    """The server, which does not listen yet. listener: whose TLS it has, None without TLS."""

    async def admit(certificate: bytes | None, user: str, password: str | None) -> SqlAnswers | None:
        credentials = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
        scheme = f"Bearer {password}" if security.method is Method.BEARER else f"Basic {credentials}"
        state = {} if certificate is None else {CERTIFICATE: certificate}
        scope = {"type": "http", "method": "POST", "path": "/", "client": ("", 0), "state": state}
        caller = await security.admit(scope, {b"authorization": scheme.encode()})
        if isinstance(caller, Response):
            return None
        grants = security.grants(caller)
        if not grants.allow_all(Action.READ):
            return None

        async def run(
            text: str, properties: dict[str, str], variables: dict[str, str]
        ) -> Sequence[Mapping[str, Any]]:
            if not grants.allow_all(Action.WRITE):
                raise SqlError(f"{caller.principal} may not write", None)
            if not node.is_primary:
                raise SqlError("statements are taken by another server", None, f"ask {node.leadership.url}")
            try:
                return await statements.run(text, Session(properties, variables))
            except StatementError as refused:
                raise refused.problem from None
            except ApiError as problem:
                raise SqlError(problem.message, None) from None

        return SqlAnswers(
            rows.queries,
            run,
            lambda: node.state.catalog,
            node.functions,
            lambda: node.default_properties,
        )

    tls = None if listener is None else security.tls_context(listener)
    context = None if tls is None else _value_of(tls)
    return WireServer(admit, asks_password=security.method is not Method.NONE, tls=context)


def _value_of(watched: Any) -> Any:
    def value() -> ssl.SSLContext:
        found: ssl.SSLContext = watched.value
        return found

    return value
