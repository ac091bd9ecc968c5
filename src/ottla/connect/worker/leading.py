"""Work of the leader that other workers ask for: task configurations, fencing, and the key of signatures."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx
import orjson

from ottla.connect.core.config_records import Properties
from ottla.connect.core.decisions import Decided, set_fenced, set_tasks
from ottla.connect.core.errors import Refused
from ottla.connect.state.stores import ConfigStore
from ottla.connect.worker.fencing import fence_tasks
from ottla.connect.worker.signing import is_old, new_key, signature_headers
from ottla.replicated.leadership import Leadership

log = logging.getLogger("ottla.connect")

REQUEST_SECONDS: Final = 30.0
KEY_LOOK_SECONDS: Final = 1.0
FENCED_SECONDS: Final = 60.0

PeerTls = Callable[[], ssl.SSLContext] | None


class NoLeader(Exception):
    """There is no leader at the moment; a later attempt may find one."""


class Leading:
    """Does it here while this worker leads, and asks the leader otherwise."""

    def __init__(
        self,
        configs: ConfigStore,
        leadership: Leadership,
        properties: Mapping[str, str],
        key_ttl_ms: int,
        peer_tls: PeerTls = None,
    ) -> None:
        self._configs = configs
        self._leadership = leadership
        self._properties = properties
        self._key_ttl_ms = key_ttl_ms
        self._peer_tls = peer_tls
        self._fencing: dict[str, asyncio.Lock] = {}

    async def set_tasks(self, connector: str, configs: Sequence[Properties]) -> None:
        """Have task configurations stored. Raises Refused; NoLeader and others where a later try may do."""
        if self._leadership.is_here:
            await self._configs.write(lambda: set_tasks(self._configs.image, connector, configs))
            return
        if _is_stored(self._configs, connector, configs):
            return
        await self._ask("POST", f"/connectors/{quote(connector, safe='')}/tasks", list(map(dict, configs)))

    async def fence(self, connector: str) -> None:
        """Return when no former task of the connector can write any more. Raises Refused, FencingFailed."""
        if not self._configs.image.is_pending_fencing(connector):
            return
        if self._leadership.is_here:
            await self.fence_here(connector)
            return
        await self._ask("PUT", f"/connectors/{quote(connector, safe='')}/fence", None)
        async with asyncio.timeout(FENCED_SECONDS):
            while self._configs.image.is_pending_fencing(connector):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def fence_here(self, connector: str) -> None:
        """As the leader: one round for each set of tasks, whoever asks. Raises FencingFailed."""
        async with self._fencing.setdefault(connector, asyncio.Lock()):
            image = self._configs.image
            config = image.config(connector)
            if config is None or not image.is_pending_fencing(connector):
                return
            generation = image.task_generation(connector)
            # Of the tasks that may have had producers, and of those that will: a task that was left behind by
            # an earlier round has one of these numbers.
            count = max(image.fenced_count(connector) or 0, image.task_count(connector))
            if image.fenced_count(connector) is not None:
                await fence_tasks(connector, config, self._properties, count)

            def decide() -> Decided[None]:
                if image.task_generation(connector) != generation:
                    raise Refused(
                        409,
                        "Failed to complete zombie fencing because a new set of task configs was generated",
                    )
                return set_fenced(image, connector)

            await self._configs.write(decide)

    async def keep_key(self) -> None:
        """As the leader: have a key of signatures that is not old, for ever."""
        while True:
            image = self._configs.image
            if self._leadership.is_here and is_old(image.session_key, self._key_ttl_ms):
                try:
                    await self._configs.write(lambda: Decided([new_key()], None))
                except Exception as problem:  # the leader may be another one by now
                    log.info("a key for requests between workers can't be written now: %r", problem)
            await asyncio.sleep(KEY_LOOK_SECONDS)

    async def _ask(self, method: str, path: str, content: Any) -> None:
        url, key = self._leadership.url, self._configs.image.session_key
        if url is None or key is None:
            raise NoLeader("no leader is known")
        body = b"" if content is None else orjson.dumps(content)
        headers = {**signature_headers(key, body), "content-type": "application/json"}
        tls = None if self._peer_tls is None else self._peer_tls()
        verify: Any = True if tls is None else tls
        async with httpx.AsyncClient(timeout=REQUEST_SECONDS, trust_env=False, verify=verify) as client:
            try:
                answer = await client.request(
                    method, f"{url.rstrip('/')}{path}", content=body, headers=headers
                )
            except httpx.HTTPError as problem:
                raise NoLeader(f"the leader at {url}: {type(problem).__name__} {problem}") from None
        if answer.status_code in (400, 404):
            raise Refused(answer.status_code, answer.text[:1_000])
        if answer.is_error:
            raise NoLeader(f"the leader at {url} answers {answer.status_code}: {answer.text[:1_000]}")


def _is_stored(configs: ConfigStore, connector: str, wanted: Sequence[Properties]) -> bool:
    image = configs.image
    if image.is_inconsistent(connector) or image.task_generation(connector) < 0:
        return False
    return list(image.task_configs(connector)) == [dict(each) for each in wanted]
