"""The registry's REST API over an application in this process, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.registry.routes.operation import MEDIA_TYPE, PRODUCED


@dataclass(frozen=True, slots=True)
class RegistryHttp:
    """Asks `app`. Paths come to it as they are: httpx would tidy them up."""

    app: ASGIApp

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """One request; `body` becomes JSON. An exception out of the application comes out here."""
        if body is not None:
            content = orjson.dumps(body)
        typed = {} if content is None else {"content-type": MEDIA_TYPE}
        return asyncio.run(self._ask(method, path, content, {**typed, **(headers or {})}))

    async def _ask(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        raw_path, _, query = path.encode().partition(b"?")

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self.app({**scope, "raw_path": raw_path, "query_string": query}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return await client.request(method, "http://registry/", content=content, headers=dict(headers))

    def get(self, path: str) -> Any:
        """The answer to GET, which must be 200."""
        return self._good("GET", path)

    def post(self, path: str, body: Any) -> Any:
        """The answer to POST, which must be 200."""
        return self._good("POST", path, body)

    def put(self, path: str, body: Any) -> Any:
        """The answer to PUT, which must be 200."""
        return self._good("PUT", path, body)

    def delete(self, path: str) -> Any:
        """The answer to DELETE, which must be 200."""
        return self._good("DELETE", path)

    def refusal(self, method: str, path: str, body: Any = None) -> tuple[int, int]:
        """The status and the error code of what is refused; the message must say something."""
        answer = self.ask(method, path, body)
        return answer.status_code, refused(answer)["error_code"]

    def _good(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, path, body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == MEDIA_TYPE
        return answer.json()


def refused(answer: httpx.Response) -> dict[str, Any]:
    """The body of an error, which has the shape of one."""
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] in PRODUCED
    body: dict[str, Any] = answer.json()
    assert body.keys() == {"error_code", "message"}
    assert isinstance(body["error_code"], int) and str(body["error_code"]).startswith(str(answer.status_code))
    assert isinstance(body["message"], str) and body["message"]
    return body
