"""A small HTTP server for tests: files in memory, and answers that go wrong on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class HttpFiles:
    """The server's files. `cut_answers`: how many answers still end after half of their body;
    `refusals`: status codes to answer with first, one a request; `requests`: paths asked for so far.
    """

    base: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut_answers: int = 0
    refusals: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def http_files() -> Iterator[HttpFiles]:
    """A server on a free port of 127.0.0.1 while the block runs."""
    held = HttpFiles()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            held.requests.append(self.path)
            body = held.files.get(self.path.lstrip("/"))
            if held.refusals:
                self.send_error(held.refusals.pop(0))
            elif body is None:
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                cut = held.cut_answers > 0
                held.cut_answers -= cut
                self.wfile.write(body[: len(body) // 2] if cut else body)
                self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield held
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
