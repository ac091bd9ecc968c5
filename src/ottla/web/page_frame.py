"""The frame of ottla's pages: head, navigation, assets, and the headers that keep a page to itself.

A page is HTML that the server has made; its style and its small script come from this package, so that no
page asks another server for anything, and the policy that it is sent with forbids it. Without the script a
page works too: it does not renew itself then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

ASSETS: Final = {"frame.css": "text/css", "frame.js": "text/javascript"}
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


class Link(NamedTuple):
    """A place in the navigation."""

    href: str
    text: str
    is_current: bool = False


def page(title: str, body: str, links: Sequence[Link] = (), *, live: str = "", status: int = 200) -> Response:
    """A page. body: HTML of what it shows. live: the path of its events, if it renews itself."""
    navigation = "".join(
        f'<a href="{escape(one.href)}"{" aria-current=page" if one.is_current else ""}>{escape(one.text)}</a>'
        for one in links
    )
    news = f'<span class="live" data-live="{escape(live)}" role="status"></span>' if live else ""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · ottla</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{_path("frame.css")}">'
        f'<script src="{_path("frame.js")}"></script></head>'
        '<body><a class="skip" href="#main">To the content</a><header><strong>ottla</strong>'
        f'<nav aria-label="Pages">{navigation}</nav>{news}<button id="theme" title="Light or dark (t)">'
        f'Theme</button></header><main id="main">{body}</main></body></html>',
        status,
        HEADERS,
    )


def asset_routes() -> list[Route]:
    """The routes of the frame's assets."""
    return [Route("/assets/{name}", _asset)]


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return Response("There is no such file.", 404, media_type="text/plain")
    headers = {"x-content-type-options": "nosniff", "cache-control": "public, max-age=31536000, immutable"}
    return Response(_content(name), 200, headers, ASSETS[name])


@cache
def _content(name: str) -> bytes:
    return files("ottla.web").joinpath("assets", name).read_bytes()


@cache
def _path(name: str) -> str:
    """The path of an asset, with its content's hash: a new version is another address."""
    return f"/assets/{name}?v={hashlib.sha256(_content(name)).hexdigest()[:12]}"
