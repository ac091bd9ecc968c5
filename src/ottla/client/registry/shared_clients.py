"""The clients of Schema Registries in this process: all who ask one share its client and answers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from ottla.client.registry.sync_client import RegistryClient
from ottla.client.registry.wire import RegistryAccess

_KEPT_CLIENTS: Final = 32
_clients: OrderedDict[RegistryAccess, RegistryClient] = OrderedDict()
_lock = threading.Lock()


def client_of(access: RegistryAccess) -> RegistryClient:
    """The client of a registry, one of those used last."""
    with _lock:
        if access not in _clients:
            _clients[access] = RegistryClient(access)
            while len(_clients) > _KEPT_CLIENTS:
                _clients.popitem(last=False)
        _clients.move_to_end(access)
        return _clients[access]
