"""An identity provider for tests: keys, tokens that are good or wrong in one way, and its addresses."""

from __future__ import annotations

import base64
import hmac
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey

ISSUER, AUDIENCE = "https://idp.test", "the-cluster"


def encoded(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@dataclass
class IdentityProvider:
    """Its keys by kid; the newest one signs."""

    keys: dict[str, Key] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.keys:
            self.rotate("first")

    def rotate(self, kid: str, kind: str = "RSA") -> None:
        """Sign with a new key from now on; the others stay."""
        parameters = {"kid": kid, "use": "sig"}
        self.keys[kid] = (
            RSAKey.generate_key(2048, parameters, auto_kid=False)
            if kind == "RSA"
            else ECKey.generate_key("P-256", parameters, auto_kid=False)
        )

    def key_set(self) -> str:
        """The public keys."""
        return json.dumps({"keys": [key.as_dict(private=False) for key in self.keys.values()]})

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Claims of alice's for an hour; None leaves a claim out."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 3600}
        return {name: value for name, value in {**claims, **changed}.items() if value is not None}

    def token(
        self, *, kid: str | None = None, header: Mapping[str, Any] | None = None, **changed: Any
    ) -> str:
        """A signed token."""
        used = kid or list(self.keys)[-1]
        algorithm = "RS256" if isinstance(self.keys[used], RSAKey) else "ES256"
        return jwt.encode(
            {"alg": algorithm, "kid": used, **(header or {})}, self.claims(**changed), self.keys[used]
        )

    def unsigned(self, **changed: Any) -> str:
        """`alg: none`."""
        return f"{encoded({'alg': 'none'})}.{encoded(self.claims(**changed))}."

    def signed_with_public_key(self) -> str:
        """HS256 whose secret is the public key, which everybody has."""
        kid = list(self.keys)[-1]
        text = f"{encoded({'alg': 'HS256', 'kid': kid})}.{encoded(self.claims())}"
        signature = hmac.digest(self.keys[kid].as_pem(private=False), text.encode(), "sha256")
        return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"

    def wrong(self) -> dict[str, str]:
        """Tokens that nobody may get in with, by what is wrong."""
        now = int(time.time())
        good = self.token()
        head, body, signature = good.split(".")
        stranger = IdentityProvider({"first": RSAKey.generate_key(2048, {"kid": "first"}, auto_kid=False)})
        own_key = stranger.keys["first"].as_dict(private=False)
        return {
            "expired": self.token(exp=now - 100, iat=now - 200),
            "at its end before its beginning": self.token(exp=now - 5, iat=now, nbf=None),
            "at its end before it is valid": self.token(exp=now + 5, iat=now - 10, nbf=now + 10),
            "without an end": self.token(exp=None),
            "without a beginning": self.token(iat=None),
            "not valid yet": self.token(nbf=now + 1000),
            "unsigned": self.unsigned(),
            "unsigned in capitals": f"{encoded({'alg': 'NONE'})}.{body}.",
            "signature left out": f"{head}.{body}.",
            "signed with the public key": self.signed_with_public_key(),
            "of an unknown key": IdentityProvider(
                {"unknown": RSAKey.generate_key(2048, {"kid": "unknown"}, auto_kid=False)}
            ).token(),
            "of a foreign key with a known name": stranger.token(),
            "with its own key": stranger.token(header={"jwk": own_key}),
            "changed": f"{head}.{encoded(self.claims(sub='admin'))}.{signature}",
            "without a subject": self.token(sub=None),
            "with an empty subject": self.token(sub=""),
            "with a number as subject": self.token(sub=7),
            "for another audience": self.token(aud="another"),
            "for no audience": self.token(aud=None),
            "of another issuer": self.token(iss="https://evil.test"),
            "of no issuer": self.token(iss=None),
            "with an end that is no number": self.token(exp="tomorrow"),
            "no token": "a.b.c",
        }


@dataclass
class ProviderServer:
    """The provider's addresses, and the requests that came."""

    port: int
    scheme: str = "http"
    asked: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    is_down: bool = False

    @property
    def key_set_url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/keys"

    @property
    def token_url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/token"


@contextmanager
def served(
    provider: IdentityProvider, tls: ssl.SSLContext | None = None, **claims: Any
) -> Iterator[ProviderServer]:
    """The provider on loopback: GET /keys, POST /token (with these claims), GET /elsewhere redirects."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            if state.is_down:
                self.answer(503, "{}")
            elif self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "/keys")
                self.end_headers()
            else:
                self.answer(200, provider.key_set())

        def do_POST(self) -> None:
            state.asked.append(self.path)
            state.authorizations.append(self.headers.get("Authorization", ""))
            state.forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if state.is_down:
                self.answer(503, "{}")
            else:
                self.answer(200, json.dumps({"access_token": provider.token(**claims), "expires_in": 3600}))

        def answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    state = ProviderServer(server.server_address[1], "http" if tls is None else "https")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
