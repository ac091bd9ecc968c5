"""An identity provider of the tests' own: signs tokens, and gives its keys out over HTTP on loopback."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

ISSUER = "https://idp.example"
AUDIENCE = "ottla"


class IdentityProvider:
    """One with a key of each kind. asked: how often its keys were read. status: of the answers."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "RS256": RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}),
            "ES256": ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"}),
            "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "okp", "use": "sig"}),
        }
        self.asked = 0
        self.status = 200
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                data = provider.key_set()
                self.send_response(provider.status)
                if provider.status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def key_set(self) -> bytes:
        """The public keys, as a JSON web key set."""
        return json.dumps({"keys": [key.as_dict(private=False) for key in self.keys.values()]}).encode()

    def write(self, path: Path) -> None:
        path.write_bytes(self.key_set())

    def token(self, algorithm: str = "RS256", **claims: Any) -> str:
        """A good token of alice, changed by `claims`; None takes a claim away."""
        now = int(time.time())
        whole = {
            "sub": "alice",
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + 600,
            "groups": ["developer"],
            **claims,
        }
        kept = {name: value for name, value in whole.items() if value is not None}
        key = self.keys[algorithm]
        return jwt.encode({"alg": algorithm, "kid": key.kid}, kept, key, algorithms=[algorithm])

    def settings(self) -> dict[str, str]:
        return {
            "authentication.method": "BEARER",
            "oauthbearer.jwks.endpoint.url": self.url,
            "oauthbearer.expected.issuer": ISSUER,
            "oauthbearer.expected.audience": AUDIENCE,
        }
