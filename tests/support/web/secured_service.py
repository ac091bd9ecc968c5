"""A small service behind the real server, with any settings of security, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.config.setting import Table, by_name
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.web.application import json_answer, json_application
from ottla.web.callers import caller_of, grants_of
from ottla.web.front_settings import FRONT_SETTINGS, FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.running import Place
from ottla.web.server import HttpAddress, serve
from ottla.web.service_metrics import Observed
from ottla.web.tls_settings import base_name
from support.servers.certificates import Authority

TABLE = Table(title="a test", settings=by_name(FRONT_SETTINGS), base_name=base_name)
TIMEOUT_S = 30


def options(given: Mapping[str, str]) -> FrontOptions:
    return FrontOptions.of(Settings(TABLE, from_mapping(given)))


class WhoService:
    """Answers with its caller; `read_bytes` counts the bytes of bodies that it was given."""

    name = "who"

    def __init__(self, given: Mapping[str, str]) -> None:
        self.front = options(given)
        self.read_bytes = 0
        self.app = json_application([Route("/{path:path}", self._who, methods=["GET", "POST"])])

    async def _who(self, request: Request) -> Response:
        self.read_bytes += len(await request.body())
        caller = caller_of(request.scope)
        told = {"principal": caller.principal, "roles": sorted(caller.roles)}
        if caller.credentials is not None:
            told["name"] = caller.credentials.name
        assert grants_of(request.scope) is not None
        return json_answer(told)

    async def start(self, _address: HttpAddress) -> None:
        pass

    def observed(self, figures: RequestFigures) -> Observed:
        return Observed()

    def end_requests(self) -> None:
        pass

    async def failed(self) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def stop(self) -> None:
        pass


class Running:
    """A service that runs: its address, and the service."""

    def __init__(self, service: WhoService, place: Place) -> None:
        self.service = service
        self.port = place.address.port
        self.url = place.address.url

    def refresh(self) -> None:
        """Look at the files now, as the service does every two seconds."""
        assert self.service.front.security is not None
        self.service.front.security.refresh()


@asynccontextmanager
async def running(given: Mapping[str, str], address: str = "https://127.0.0.1:0") -> AsyncIterator[Running]:
    service = WhoService(given)
    place = Place.take("who", [HttpAddress.parse(address)])
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(service, place.bound, place.addresses, lambda _: ready.set()))
    waiting = asyncio.create_task(ready.wait())
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            yield Running(service, place)
    finally:
        waiting.cancel()
        serving.cancel()
        await asyncio.wait([serving, waiting])


class Files:
    """An authority's files: `ca.pem`, and a file with key and certificate for each name."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.authority = Authority(directory, name)
        self.ca = str(directory / "ca.pem")
        Path(self.ca).write_text(self.authority.pem)

    def identity(self, name: str, file: str | None = None) -> str:
        """The path of a new key and certificate, for `CN=name`."""
        made = self.authority.identity(name)
        path = self.directory / f"{file or name}.pem"
        path.write_text(made.key + made.certificate)
        return str(path)


def client(ca: str, identity: str | None = None, **options: object) -> httpx.AsyncClient:
    import ssl

    context = ssl.create_default_context(cafile=ca)
    if identity is not None:
        context.load_cert_chain(identity)
    return httpx.AsyncClient(verify=context, trust_env=False, timeout=TIMEOUT_S)
