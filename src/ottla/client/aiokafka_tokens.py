"""Bearer tokens for aiokafka's clients."""

from __future__ import annotations

import asyncio

from aiokafka.abc import AbstractTokenProvider

from ottla.client.bearer_login import BearerLogin


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Gives aiokafka the tokens of a login; aiokafka takes no other class."""

    def __init__(self, login: BearerLogin) -> None:
        self._login = login

    async def token(self) -> str:
        """A token that can be used now. Raises TokenUnavailable."""
        return await asyncio.to_thread(self._login.tokens.current, self._login.source)

    def extensions(self) -> dict[str, str]:
        """The extensions that go with each token."""
        return dict(self._login.extensions)
