"""Decides which hosts requests may name: the defence against pages that rebind their DNS name to a service.

A page of `http://evil.example:8082` whose name is resolved a second time, to 127.0.0.1, is of the same origin
as a service there: the browser lets it read all answers, whatever CORS says. Only the Host header tells such
a request apart. It always names the page's DNS name, so three kinds of hosts are safe: IP addresses, names
that no foreign DNS answers for (`localhost`, and this machine's own name), and names that the operator gave.

A listener on a loopback address (the default) takes those alone: other names come from rebinding, from a
reverse proxy that passes its own Host on (ottla.http.hosts then has to name it), or from an alias for
127.0.0.1. A listener on any other address takes all hosts unless ottla.http.hosts is set, as nobody can know
under which names containers, clusters and DNS make it known.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._~%!$&'()*+,;=-]*))(?::[0-9]{0,5})?")
ANY: Final = "*"
KEPT_HOSTS: Final = 256
"""Hosts of requests whose verdicts are kept: most requests name one of a few."""


class AllowedHosts:
    """The hosts that requests to one listener may name."""

    def __init__(self, named: Collection[str]) -> None:
        """`named`: hosts beside the safe ones; `*.example.com` for all below a domain, `*` for all."""
        own = (socket.gethostname(), "localhost")
        hosts = {name.lower().rstrip(".") for name in (*named, *own)}
        self._any = ANY in hosts
        self._names = hosts
        self.allows: Final = lru_cache(KEPT_HOSTS)(self._is_allowed)
        """Whether this Host header, with or without a port, is allowed."""
        self._domains = tuple({".localhost", *(host[1:] for host in hosts if host.startswith("*."))})

    @classmethod
    def of(cls, configured: Iterable[str], own_names: Iterable[str], *, loopback: bool) -> AllowedHosts:
        """The hosts of a listener. own_names: those that the service's other settings give it."""
        named = [name for name in configured if name]
        if not named and not loopback:
            return cls((ANY,))
        return cls((*named, *own_names))

    def _is_allowed(self, host: str) -> bool:
        if self._any:
            return True
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        if found[1] is not None:
            return True
        name = found[2].lower().rstrip(".")
        return name in self._names or name.endswith(self._domains) or _is_ipv4(name)


def _is_ipv4(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True
