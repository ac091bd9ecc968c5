"""SCRAM-SHA-256 and SCRAM-SHA-512 on the server's side (RFC 5802, RFC 7677), as Kafka's clients speak it.

Theory of operation. The client's first message names a user and a nonce; the server answers with its own
nonce, the user's salt and iterations; the client's final message proves the password, the server's last one
that the server knows the credential. A credential is no password: the server keeps StoredKey and ServerKey
(KIP-84).

Kafka refuses an unknown user at the first message, so anybody can find out which users there are. Here an
unknown user is answered like any other, with a salt that is made of its name and a secret of the cluster (the
same one each time and on every node), and is refused at the final message with the same computations. A user
with a credential that is not usable (too few iterations) is treated in the same way.

With the extension `tokenauth=true` the user is the id of a delegation token, its HMAC in Base64 the password
(KIP-48). Channel bindings are not offered: `c=` has to be the header of the first message.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.core.security.principals import USER_TYPE, KafkaPrincipal
from ottla.core.security.sasl.mechanism import Authenticated, Challenge, Outcome, Refused

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
MAX_MESSAGE_BYTES: Final = 64 * 1024
TOKEN_AUTHENTICATION: Final = "tokenauth"

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_BASE36: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
#: Kafka's own tools make salts of so many characters.
_SALT_BYTES: Final = 26


class ScramMechanism(enum.Enum):
    """The mechanisms, with their numbers in requests and metadata records."""

    SHA_256 = 1, "SCRAM-SHA-256", "sha256"
    SHA_512 = 2, "SCRAM-SHA-512", "sha512"

    def __init__(self, number: int, mechanism_name: str, digest: str) -> None:
        self.number = number
        self.mechanism_name = mechanism_name
        self.digest = digest
        self.digest_bytes = hashlib.new(digest).digest_size

    @classmethod
    def of_number(cls, number: int) -> ScramMechanism | None:
        """The mechanism with that number, None where there is none."""
        return next((each for each in cls if each.number == number), None)

    @classmethod
    def of_name(cls, name: str) -> ScramMechanism | None:
        """The mechanism with that name, None where there is none."""
        return next((each for each in cls if each.mechanism_name == name), None)

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """RFC 5802's HMAC(key, str)."""
        return hmac.digest(key, data, self.digest)

    def hash(self, data: bytes) -> bytes:
        """RFC 5802's H(str)."""
        return hashlib.new(self.digest, data).digest()

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """RFC 5802's Hi(password, salt, i)."""
        return hashlib.pbkdf2_hmac(self.digest, password, salt, iterations)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The keys that a server needs to check a user. Printed, they are hidden."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential([hidden])"


def credential_of(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """The credential of a salted password."""
    client_key = mechanism.hmac(salted_password, b"Client Key")
    server_key = mechanism.hmac(salted_password, b"Server Key")
    return ScramCredential(salt, mechanism.hash(client_key), server_key, iterations)


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """A delegation token as a SCRAM credential: the principal that owns it, and the end of its validity."""

    credential: ScramCredential
    owner: KafkaPrincipal
    expires_at_ms: int


class ScramCredentials(Protocol):
    """The credentials of users and tokens, as of now."""

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        """The user's credential, or None."""
        ...

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """The credential of a delegation token that is valid, or None."""
        ...

    @property
    def salt_secret(self) -> bytes:
        """A secret that all nodes of the cluster share; salts of unknown users are made of it."""
        ...


@dataclass(frozen=True, slots=True)
class _Begun:
    """The state after the first message."""

    user: str
    gs2_header: bytes
    client_first_bare: str
    server_first: str
    nonce: str
    credential: ScramCredential
    token: TokenCredential | None
    problem: str | None
    """Why the exchange will be refused, whatever the proof is; None where the proof decides."""


class ScramExchange:
    """One exchange. `server_nonce` is random, printable and has no comma."""

    __slots__ = ("_begun", "_credentials", "_ended", "_mechanism", "_server_nonce")

    def __init__(self, mechanism: ScramMechanism, credentials: ScramCredentials, server_nonce: str) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._server_nonce = server_nonce
        self._begun: _Begun | None = None
        self._ended = False

    def respond(self, data: bytes) -> Outcome:
        """A challenge for the client's first message, the verdict for its final one."""
        if self._ended:
            return Refused("a message behind the end of a SCRAM exchange")
        outcome = self._first(data) if self._begun is None else self._final(self._begun, data)
        self._ended = not isinstance(outcome, Challenge)
        return outcome

    def _first(self, data: bytes) -> Outcome:
        parsed = _match(_CLIENT_FIRST, data)
        if parsed is None:
            return Refused("the client's first SCRAM message is malformed")
        user = _user_name(parsed["name"])
        credential, token, problem = self._find(user, _is_token(parsed["extensions"]))
        authorization_id = parsed["authzid"]
        if problem is None and authorization_id and authorization_id != user:
            problem = "the client asks for an authorization id that is not its user"
        nonce = parsed["nonce"] + self._server_nonce
        salt = base64.b64encode(credential.salt).decode()
        self._begun = _Begun(
            user=user,
            gs2_header=parsed["header"].encode(),
            client_first_bare=parsed["bare"],
            server_first=f"r={nonce},s={salt},i={credential.iterations}",
            nonce=nonce,
            credential=credential,
            token=token,
            problem=problem,
        )
        return Challenge(self._begun.server_first.encode())

    def _find(self, user: str, by_token: bool) -> tuple[ScramCredential, TokenCredential | None, str | None]:
        """The credential to go on with, the token that it is of, and why it can't succeed (or None)."""
        token = self._credentials.token(self._mechanism, user) if by_token else None
        credential = token.credential if token is not None else None
        if not by_token:
            credential = self._credentials.user(self._mechanism, user)
        if credential is None:
            return self._unknown(user), None, "no such delegation token" if by_token else "no such user"
        if credential.iterations < MIN_ITERATIONS:
            return self._unknown(user), None, f"the credential has only {credential.iterations} iterations"
        return credential, token, None

    def _unknown(self, user: str) -> ScramCredential:
        """A credential that no password fits, always the same one for a name."""
        text = f"{self._mechanism.mechanism_name}:{user}".encode()
        seed = hmac.digest(self._credentials.salt_secret, text, "sha512")
        salt = bytes(_BASE36[byte % len(_BASE36)] for byte in seed[:_SALT_BYTES])
        key = seed[-self._mechanism.digest_bytes :]
        return ScramCredential(salt, key, key, MIN_ITERATIONS)

    def _final(self, begun: _Begun, data: bytes) -> Outcome:
        parsed = _match(_CLIENT_FINAL, data)
        if parsed is None:
            return Refused("the client's final SCRAM message is malformed")
        channel, proof = _base64(parsed["channel"]), _base64(parsed["proof"])
        if channel is None or proof is None or not hmac.compare_digest(channel, begun.gs2_header):
            return Refused("the client's final SCRAM message is bound to another channel than its first one")
        # As in Kafka: before librdkafka 2.6.1, its clients put their own nonce before it once more.
        if not parsed["nonce"].endswith(begun.nonce):
            return Refused("the client's final SCRAM message has another nonce")
        text = ",".join((begun.client_first_bare, begun.server_first, parsed["without_proof"])).encode()
        proved = self._is_proved(begun.credential, text, proof)
        signature = self._mechanism.hmac(begun.credential.server_key, text)
        if begun.problem is not None or not proved:
            return Refused(begun.problem or "the proof does not fit the credential")
        last = b"v=" + base64.b64encode(signature)
        if begun.token is not None:
            owner = begun.token.owner._replace(token_authenticated=True)
            return Authenticated(last, owner, begun.token.expires_at_ms)
        return Authenticated(last, KafkaPrincipal(USER_TYPE, begun.user))

    def _is_proved(self, credential: ScramCredential, text: bytes, proof: bytes) -> bool:
        signature = self._mechanism.hmac(credential.stored_key, text)
        if len(proof) != len(signature):
            return False
        client_key = bytes(left ^ right for left, right in zip(signature, proof, strict=True))
        return hmac.compare_digest(self._mechanism.hash(client_key), credential.stored_key)


def _match(pattern: re.Pattern[str], data: bytes) -> re.Match[str] | None:
    """The match of a whole message, None where it is too long, no UTF-8, or of another form."""
    if len(data) > MAX_MESSAGE_BYTES:
        return None
    try:
        return pattern.fullmatch(data.decode())
    except UnicodeDecodeError:
        return None


def _user_name(sasl_name: str) -> str:
    """The user of a `saslname`, in which `=2C` is a comma and `=3D` an equals sign."""
    return sasl_name.replace("=2C", ",").replace("=3D", "=")


def _is_token(extensions: str) -> bool:
    """Whether the last `tokenauth` among the extensions says true."""
    found = dict(each.split("=", 1) for each in extensions.split(",") if each)
    return found.get(TOKEN_AUTHENTICATION, "").lower() == "true"


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
