"""The handlers of one kind of listener, each module imported at the first request for one of its APIs.

So a broker starts without paying for handlers that no client calls.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES
from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node
    from ottla.broker.network.dispatch import Handler, RawHandler


class HandlerTable:
    """The handlers of one table of families, each imported when it is first asked for."""

    def __init__(self, families: Mapping[ApiKey, str], attribute: str) -> None:
        self._families = families
        self._attribute = attribute
        self.loaded: dict[int, Handler[Node]] = {}
        self.loaded_raw: dict[int, RawHandler[Node]] = {}

    @property
    def apis(self) -> Iterable[ApiKey]:
        """The APIs of the table."""
        return self._families

    def load(self, key: int) -> None:
        """Import the handler of an API of the table."""
        api_key = ApiKey(key)
        module = importlib.import_module(f"ottla.broker.handlers.{self._families[api_key]}")
        handlers = getattr(module, self._attribute, {})
        raw_handlers = getattr(module, f"RAW_{self._attribute}", {})
        if api_key in raw_handlers:
            self.loaded_raw[key] = raw_handlers[api_key]
        elif api_key in handlers:
            self.loaded[key] = handlers[api_key]
        else:
            raise RuntimeError(f"module {module.__name__} has no {self._attribute} for {api_key.name}")

    def handler(self, key: int) -> Handler[Node]:
        """The handler of an API that takes a decoded request."""
        if key not in self.loaded:
            self.load(key)
        return self.loaded[key]


def broker_table() -> HandlerTable:
    """The handlers of a broker's listeners."""
    return HandlerTable(FAMILIES, "HANDLERS")


def controller_table() -> HandlerTable:
    """The handlers of a controller's listeners."""
    return HandlerTable(CONTROLLER_FAMILIES, "CONTROLLER_HANDLERS")
