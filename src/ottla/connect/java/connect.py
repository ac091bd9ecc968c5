"""Connect's REST API of the Java worker, passed through: each call gives a status and the JSON of its answer.

The Java worker is a Connect cluster of its own, so its names, configurations, offsets and states are its own
too. It is started by the first call that needs it. Its list of connectors is kept: while it is started again,
its connectors are still known to be its own, and calls about them wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx

from ottla.config.errors import UserError
from ottla.connect.java.errors import JavaConnectError
from ottla.connect.java.jars import fetch_connect
from ottla.connect.java.process import JavaWorkerProcess, LogLine
from ottla.connect.java.settings import JavaOptions
from ottla.connect.java.stored import stored_connectors
from ottla.connect.java.supervisor import Supervisor

ANSWER_SECONDS: Final = 95.0
"""Connect gives up on a request of its own after 90 seconds."""
RETRY_SECONDS: Final = 30.0
"""For a rebalance of the Java worker to end, which it answers with 409, or for it to be started again."""
RETRY_POLL_SECONDS: Final = 0.25
LOOK_SECONDS: Final = 5.0
NEXT_LOOK_SECONDS: Final = 3.0
"""Between two looks for connectors that another worker may have made."""
MAX_ANSWER_BYTES: Final = 64 << 20
UNAVAILABLE: Final = 503
_REBALANCE: Final = ("worker rebalance", "stale configuration", "a rebalance was underway")

log = logging.getLogger("ottla.connect")


class Answer(NamedTuple):
    """An answer of Connect's REST API. body: its JSON; None for an answer without content."""

    status: int
    body: Any

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300


class JavaConnect:
    """The Java worker of a worker. All calls but `start` and `close` give an Answer, and never raise."""

    def __init__(self, options: JavaOptions, log_line: LogLine | None = None) -> None:
        """log_line: where its output goes; by default to this package's log, for debugging."""
        self._options = options
        self._log_line = log_line or _to_log
        self._client: httpx.AsyncClient | None = None
        self._names: frozenset[str] = frozenset()
        self._looking = asyncio.Lock()
        self._next_look = 0.0
        self._supervisor = Supervisor(self._started, self._look, options.start_timeout_ms / 1000)

    # -- its life

    async def start(self) -> None:
        """Start the Java worker at once if its group has connectors; returns without waiting for it.

        Raises ClusterError, ClientOptionError.
        """
        await self._read_stored()

    async def close(self) -> None:
        """End the Java worker in order."""
        await self._supervisor.stop()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    @property
    def is_running(self) -> bool:
        """Whether there is a Java worker, or one is being started."""
        return self._supervisor.is_running

    @property
    def pid(self) -> int | None:
        """The process id of the Java worker, None where there is none now."""
        return self._supervisor.pid

    @property
    def names(self) -> frozenset[str]:
        """The connectors, as far as this process knows without asking."""
        return self._names

    async def owns(self, connector: str) -> bool:
        """Whether a connector is the Java worker's, so that calls about it are to be passed on.

        Another worker of the group may have made it: an unknown name is looked for, once in a few seconds.
        """
        if connector not in self._names:
            async with self._looking:
                if connector not in self._names and time.monotonic() >= self._next_look:
                    await self.connectors()
                    self._next_look = time.monotonic() + NEXT_LOOK_SECONDS
        return connector in self._names

    # -- plugins

    async def plugins(self, connectors_only: bool = True) -> Answer:
        """GET /connector-plugins. Starts the Java worker."""
        return await self.pass_on("GET", ("connector-plugins",), query={"connectorsOnly": connectors_only})

    # -- connectors

    async def connectors(self, expand: Sequence[str] = ()) -> Answer:
        """GET /connectors. Starts the Java worker only if its group has connectors."""
        if not self.is_running:
            try:
                await self._read_stored()
            except UserError as problem:
                return _unavailable(str(problem))
            if not self.is_running:
                return Answer(200, {} if expand else [])
        before = self._names
        answer = await self.pass_on("GET", ("connectors",), query={"expand": list(expand)})
        if answer.is_success:
            made_meanwhile = self._names - before
            self._names = frozenset(answer.body) | made_meanwhile
        return answer

    async def create(self, body: Mapping[str, Any]) -> Answer:
        """POST /connectors. Starts the Java worker."""
        answer = await self.pass_on("POST", ("connectors",), body)
        return self._kept(str(body.get("name", "")), answer)

    async def put(self, connector: str, config: Mapping[str, Any]) -> Answer:
        """PUT /connectors/C/config. Starts the Java worker."""
        answer = await self.pass_on("PUT", ("connectors", connector, "config"), config)
        return self._kept(connector, answer)

    async def delete(self, connector: str) -> Answer:
        """DELETE /connectors/C."""
        answer = await self.pass_on("DELETE", ("connectors", connector))
        if answer.is_success or answer.status == 404:
            self._names -= {connector}
        return answer

    async def pass_on(
        self,
        method: str,
        path: Sequence[str],
        body: Any = None,
        query: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The answer to any call, once the Java worker is ready and no rebalance is in the way.

        path: its parts, not yet percent-encoded.
        """
        url = "/" + "/".join(quote(part, safe="") for part in path)
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                answer = await self._asked_once(method, url, body, query)
                again = _is_rebalancing(answer)
            except JavaConnectError as problem:
                return _unavailable(str(problem))
            except (httpx.HTTPError, ValueError) as problem:
                told = str(problem) or type(problem).__name__
                answer = _unavailable(f"the Java worker gave no answer: {told}")
                # It may have died over the request; one that changes something may have been carried out.
                again = method == "GET" and isinstance(problem, httpx.TransportError)
            if not again or time.monotonic() > deadline:
                return answer
            await asyncio.sleep(RETRY_POLL_SECONDS)

    # -- how it is asked

    async def _read_stored(self) -> None:
        """Start the Java worker if its group has connectors. Raises ClusterError, ClientOptionError."""
        options = self._options
        self._names = frozenset(
            await asyncio.to_thread(stored_connectors, options.access, options.config_topic)
        )
        if self._names:
            self._supervisor.begin()

    def _kept(self, connector: str, answer: Answer) -> Answer:
        if answer.is_success:
            self._names |= {connector}
        return answer

    async def _asked_once(self, method: str, url: str, body: Any, query: Mapping[str, Any] | None) -> Answer:
        address = await self._supervisor.ready()
        client = self._http()
        async with client.stream(method, address + url, params=query, json=body) as response:
            received = bytearray()
            async for part in response.aiter_bytes():
                received += part
                if len(received) > MAX_ANSWER_BYTES:
                    raise JavaConnectError(f"an answer of the Java worker has over {MAX_ANSWER_BYTES} bytes")
        if not received:
            return Answer(response.status_code, None)
        import orjson

        return Answer(response.status_code, orjson.loads(received))

    async def _look(self, address: str) -> bool | None:
        try:
            response = await self._http().get(f"{address}/health", timeout=LOOK_SECONDS)
        except httpx.HTTPError:
            return None
        return response.status_code == 200

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                auth=(self._options.user, self._options.password),
                timeout=ANSWER_SECONDS,
                trust_env=False,  # no proxy stands between two processes of one machine
                limits=httpx.Limits(max_connections=32),
            )
        return self._client

    async def _started(self) -> JavaWorkerProcess:
        """Start one Java worker. Raises UserError."""
        log.info("starting the Java worker")
        jars, java = await asyncio.to_thread(_installed)
        return await JavaWorkerProcess.start(self._options, java, jars, self._log_line)


def _installed() -> tuple[list[Path], Path]:
    """The jars, and the Java to run them. Blocks. Raises UserError."""
    jars = fetch_connect()
    from ottla.pipeline.spark.java_runtime import find_java

    return jars, find_java().executable


def _unavailable(message: str) -> Answer:
    return Answer(UNAVAILABLE, {"error_code": UNAVAILABLE, "message": message})


def _is_rebalancing(answer: Answer) -> bool:
    if answer.status != 409 or not isinstance(answer.body, dict):
        return False
    message = str(answer.body.get("message", ""))
    return any(part in message for part in _REBALANCE)


def _to_log(connector: str | None, line: str) -> None:
    log.debug("java: %s", line)
