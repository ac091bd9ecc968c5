"""/connector-plugins: which there are, their keys, and the judgement of configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.connect.core.errors import Refused
from ottla.connect.rest.endpoints import (
    Extent,
    Operation,
    Worker,
    answer,
    config_of,
    flag,
    json_body,
    path_text,
)

SUFFIX: Final = "Connector"


@dataclass(frozen=True, slots=True)
class PluginRoutes:
    """The family's endpoints."""

    worker: Worker

    def operations(self) -> Sequence[Operation]:
        one = "/connector-plugins/{plugin}/config"
        return (
            Operation("GET", "/connector-plugins", self.plugins, Extent.NOTHING),
            Operation("GET", one, self.config, Extent.NOTHING),
            Operation("PUT", f"{one}/validate", self.validate, Extent.NOTHING),
        )

    async def plugins(self, request: Request) -> Response:
        only = flag(request, "connectorsOnly", True)
        return answer(self.worker.herder.plugins(connectors_only=only))

    async def config(self, request: Request) -> Response:
        return answer(self.worker.herder.plugin_config(path_text(request, "plugin")))

    async def validate(self, request: Request) -> Response:
        plugin = path_text(request, "plugin")
        config = config_of(await json_body(request))
        named = config.get("connector.class")
        if named is not None and not _normal(named).endswith(_normal(plugin)):
            raise Refused(400, f"Included connector type {named} does not match request type {plugin}")
        try:
            infos = await self.worker.herder.validate(config)
        except Refused as refused:
            # The status that Connect gives refusals here, which its clients know.
            raise Refused(500, refused.message) from None
        return answer(infos.as_json())


def _normal(name: str) -> str:
    """A whole or simple name of a class without Connector at its end."""
    return name.removesuffix(SUFFIX) if len(name) > len(SUFFIX) else name
