"""Stored passwords: those of Jetty's realm files, and two hashes that are worth using.

    plain               the password itself
    OBF:1uvk…           the password, made unreadable to the eye (Jetty)
    MD5:5ebe…           its MD5, which a guesser gets through by the billion (Jetty)
    CRYPT:$2b$12$…      crypt(3), as far as the system's libcrypt knows the method; bcrypt among them
    SCRYPT:15:8:1:salt:hash           RFC 7914: log2 of N, r, p; salt and hash in base64
    PBKDF2:sha256:600000:salt:hash    RFC 8018

All comparisons take the same time for a wrong password, whichever part of it is wrong.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import threading
from typing import Final, Protocol

DEFAULT_METHOD: Final = "scrypt"
METHODS: Final = (DEFAULT_METHOD, "pbkdf2")
MAX_PASSWORD_BYTES: Final = 1_024
"""A longer password is wrong without being hashed."""

_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_SCRYPT: Final = (15, 8, 1)
_MOST_SCRYPT: Final = (20, 32, 16)
_MOST_SCRYPT_BYTES: Final = 256 << 20
_ITERATIONS: Final = 600_000
_MOST_ITERATIONS: Final = 10_000_000
_DIGESTS: Final = ("sha256", "sha512")
_MD5_HEX: Final = re.compile(r"[0-9a-fA-F]{32}")


class UnusableHash(ValueError):
    """A stored password can't be used; the message does not repeat it."""


class StoredPassword(Protocol):
    """A stored password. `is_slow`: whether a check takes so long that it belongs into a thread."""

    @property
    def is_slow(self) -> bool: ...

    def matches(self, password: str) -> bool:
        """Whether this is the password."""


def stored_password(text: str) -> StoredPassword:
    """Read a stored password. Raises UnusableHash."""
    kind, colon, rest = text.partition(":")
    match kind if colon else "":
        case "OBF":
            return _Plain(deobfuscated(rest))
        case "MD5":
            return _Md5(rest)
        case "CRYPT":
            return _Crypt(rest)
        case "SCRYPT":
            return _Scrypt(rest)
        case "PBKDF2":
            return _Pbkdf2(rest)
        case _:
            return _Plain(text)


def hashed(password: str, method: str = DEFAULT_METHOD) -> str:
    """A password as it is to be stored, by one of METHODS. Raises ValueError."""
    if len(password.encode()) > MAX_PASSWORD_BYTES:
        raise ValueError(f"a password has at most {MAX_PASSWORD_BYTES} bytes")
    salt = os.urandom(_SALT_BYTES)
    if method == "pbkdf2":
        made = hashlib.pbkdf2_hmac(_DIGESTS[0], password.encode(), salt, _ITERATIONS, _HASH_BYTES)
        return ":".join(("PBKDF2", _DIGESTS[0], str(_ITERATIONS), _base64(salt), _base64(made)))
    if method != DEFAULT_METHOD:
        raise ValueError(f"{method} is none of {', '.join(METHODS)}")
    made = _scrypt(password.encode(), salt, _SCRYPT, _HASH_BYTES)
    return ":".join(("SCRYPT", *map(str, _SCRYPT), _base64(salt), _base64(made)))


class _Plain:
    is_slow = False

    def __init__(self, password: str) -> None:
        self._password = _digest(password)

    def matches(self, password: str) -> bool:
        # Of equal lengths, or the time would tell the password's.
        return hmac.compare_digest(self._password, _digest(password))


class _Md5:
    is_slow = False

    def __init__(self, text: str) -> None:
        if _MD5_HEX.fullmatch(text) is None:
            raise UnusableHash("MD5: is not followed by 32 hexadecimal digits")
        self._hash = bytes.fromhex(text)

    def matches(self, password: str) -> bool:
        # Jetty takes the characters of Latin 1, and a question mark for all others.
        made = hashlib.md5(password.encode("latin-1", "replace"), usedforsecurity=False).digest()
        return hmac.compare_digest(self._hash, made)


class _Scrypt:
    is_slow = True

    def __init__(self, text: str) -> None:
        fields = text.split(":")
        if len(fields) != 5 or not all(each.isascii() and each.isdecimal() for each in fields[:3]):
            raise UnusableHash("SCRYPT: is not followed by LOG2N:R:P:SALT:HASH")
        self._cost = tuple(int(each[:4]) for each in fields[:3])
        if not all(1 <= given <= most for given, most in zip(self._cost, _MOST_SCRYPT, strict=True)) or (
            128 * self._cost[1] << self._cost[0] > _MOST_SCRYPT_BYTES
        ):
            raise UnusableHash(f"SCRYPT: costs of {fields[:3]} are out of bounds")
        self._salt, self._hash = _bytes(fields[3], "SCRYPT"), _bytes(fields[4], "SCRYPT")

    def matches(self, password: str) -> bool:
        made = _scrypt(password.encode(), self._salt, self._cost, len(self._hash))
        return hmac.compare_digest(self._hash, made)


class _Pbkdf2:
    is_slow = True

    def __init__(self, text: str) -> None:
        fields = text.split(":")
        if len(fields) != 4 or fields[0] not in _DIGESTS or not fields[1].isdecimal() or len(fields[1]) > 8:
            raise UnusableHash("PBKDF2: is not followed by sha256:ITERATIONS:SALT:HASH")
        self._digest, self._iterations = fields[0], int(fields[1])
        if not 1 <= self._iterations <= _MOST_ITERATIONS:
            raise UnusableHash(f"PBKDF2: {self._iterations} iterations, not 1 to {_MOST_ITERATIONS}")
        self._salt, self._hash = _bytes(fields[2], "PBKDF2"), _bytes(fields[3], "PBKDF2")

    def matches(self, password: str) -> bool:
        made = hashlib.pbkdf2_hmac(
            self._digest, password.encode(), self._salt, self._iterations, len(self._hash)
        )
        return hmac.compare_digest(self._hash, made)


class _Crypt:
    is_slow = True
    _turn: Final = threading.Lock()
    """libcrypt's answer is in a buffer that all its callers share."""

    def __init__(self, text: str) -> None:
        self._stored = text.encode()
        made = self._crypt(b"") if text else None
        if made is None or len(made) != len(self._stored):
            raise UnusableHash("CRYPT: the system's libcrypt does not know this method, or is not there")

    def matches(self, password: str) -> bool:
        if "\0" in password:
            return False
        made = self._crypt(password.encode())
        return made is not None and hmac.compare_digest(self._stored, made)

    def _crypt(self, password: bytes) -> bytes | None:
        import ctypes.util

        name = ctypes.util.find_library("crypt")
        if name is None:
            return None
        crypt = ctypes.CDLL(name).crypt
        crypt.restype = ctypes.c_char_p
        with self._turn:
            made: bytes | None = crypt(password, self._stored)
        return None if made is None or made.startswith(b"*") else made


def deobfuscated(text: str) -> str:
    """The password behind `OBF:`. Raises UnusableHash."""
    made = bytearray()
    position = 0
    try:
        while position < len(text):
            if text[position] == "U":
                made.append(int(text[position + 1 : position + 5], 36) >> 8 & 0xFF)
                position += 5
            else:
                number = int(text[position : position + 4], 36)
                made.append((number // 256 + number % 256 - 254) // 2 & 0xFF)
                position += 4
        return made.decode()
    except ValueError:
        raise UnusableHash("OBF: is not followed by an obfuscated password") from None


def _scrypt(password: bytes, salt: bytes, cost: tuple[int, ...], length: int) -> bytes:
    n, r, p = 1 << cost[0], cost[1], cost[2]
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, dklen=length, maxmem=2 * 128 * r * (n + p + 2))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str, kind: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if not 8 <= len(data) <= 128:
        raise UnusableHash(f"{kind}: salt and hash are 8 to 128 bytes in base64")
    return data
