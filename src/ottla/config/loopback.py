"""Addresses that only this machine can reach."""

from __future__ import annotations

import ipaddress


def is_loopback(address: str) -> bool:
    """Whether this is the IP address of a listener that only this machine can reach."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
