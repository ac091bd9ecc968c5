"""A Schema Registry of the tests' own, which answers and fails as it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str], tuple[int, Any]]
NOT_FOUND = (404, {"error_code": 40403, "message": "Schema 9 not found"})


class FakeRegistry:
    """Answers by `answer`; keeps the requests, and the clients' credentials."""

    def __init__(self) -> None:
        self.answer: Answer = lambda path: NOT_FOUND
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.asked.append(self.path)
                fake.authorizations.append(self.headers.get("Authorization"))
                status, body = fake.answer(self.path)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"

    def close(self) -> None:
        """Stop serving, and end the thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
