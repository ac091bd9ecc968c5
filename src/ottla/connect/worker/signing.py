"""Signatures of workers' requests to each other, by a key from the topic of configurations (KIP-507)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from typing import Final

from ottla.connect.core.config_records import SessionKey

ALGORITHM: Final = "HmacSHA256"
KEY_BYTES: Final = 32
SIGNATURE_HEADER: Final = "x-connect-authorization"
ALGORITHM_HEADER: Final = "x-connect-request-signature-algorithm"


def new_key() -> SessionKey:
    """A key that no one has used."""
    return SessionKey(secrets.token_bytes(KEY_BYTES), ALGORITHM, int(time.time() * 1000))


def is_old(key: SessionKey | None, ttl_ms: int) -> bool:
    """Whether it is time for another key."""
    return key is None or key.created_ms + ttl_ms < time.time() * 1000


def signature_headers(key: SessionKey, body: bytes) -> dict[str, str]:
    """The headers of a request of this body."""
    signed = base64.b64encode(_signature(key, body)).decode()
    return {SIGNATURE_HEADER: signed, ALGORITHM_HEADER: ALGORITHM}


def is_signed(key: SessionKey, body: bytes, signature: str) -> bool:
    """Whether a request's signature is that of a worker."""
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(given, _signature(key, body))


def _signature(key: SessionKey, body: bytes) -> bytes:
    return hmac.new(key.key, body, hashlib.sha256).digest()
