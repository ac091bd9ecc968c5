"""Addresses of clients as text: one way to write each of them, and those that a host's name stands for."""

from __future__ import annotations

import socket
from typing import Final

_IPV4_IN_IPV6: Final = bytes(10) + b"\xff\xff"


def is_address(text: str) -> bool:
    """Whether a text is an address itself, of IPv4 or IPv6, and not the name of a host."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False


def normal_address(address: str) -> str:
    """One way to write an address: IPv4 in IPv6 is IPv4, as on a socket that takes both."""
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    if packed.startswith(_IPV4_IN_IPV6):
        return socket.inet_ntop(socket.AF_INET, packed[len(_IPV4_IN_IPV6) :])
    return socket.inet_ntop(socket.AF_INET6, packed)


def host_addresses(host: str) -> set[str]:
    """The addresses that a host stands for, by the name service. Raises OSError or UnicodeError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {normal_address(str(address[0])) for *_, address in found}
