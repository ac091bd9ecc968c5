"""Functions of URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote_plus, unquote_plus, urlsplit

from ottla.sql.functions.function import ScalarFunction, on, scalar

_URI = re.compile(r"[^\s\"<>\\^`{|}]*")


def _encode(text: str) -> str:
    # Java's URLEncoder leaves the star and encodes the tilde.
    return quote_plus(text, safe="*").replace("~", "%7E")


def _of(part: Callable[[str], str | int | None]) -> Callable[[str], str | int | None]:
    def found(url: str) -> str | int | None:
        if _URI.fullmatch(url) is None:
            raise ValueError(f"{url[:100]!r} is no URL")
        return part(url)

    return found


def _parameter(url: str, name: str) -> str | None:
    for each in urlsplit(url).query.split("&"):
        key, equals, value = each.partition("=")
        if unquote_plus(key) == name:
            return unquote_plus(value) if equals else ""
    return None


def _query(url: str) -> str | None:
    return unquote_plus(urlsplit(url).query) if "?" in url.split("#")[0] else None


def _url(
    name: str, summary: str, part: Callable[[str], str | int | None], result: str = "STRING"
) -> ScalarFunction:
    return scalar(name, summary, on(f"(STRING) -> {result}", _of(part)), group="URLs")


URLS = (
    scalar(
        "URL_DECODE_PARAM",
        "a text out of a URL's encoding",
        on("(STRING) -> STRING", unquote_plus),
        group="URLs",
    ),
    scalar("URL_ENCODE_PARAM", "a text in a URL's encoding", on("(STRING) -> STRING", _encode), group="URLs"),
    _url(
        "URL_EXTRACT_FRAGMENT",
        "what is behind #",
        lambda url: unquote_plus(urlsplit(url).fragment) if "#" in url else None,
    ),
    _url("URL_EXTRACT_HOST", "the host", lambda url: urlsplit(url).hostname),
    scalar(
        "URL_EXTRACT_PARAMETER",
        "the value of a parameter",
        on("(STRING, STRING) -> STRING", _parameter),
        group="URLs",
    ),
    _url("URL_EXTRACT_PATH", "the path", lambda url: unquote_plus(urlsplit(url).path)),
    _url("URL_EXTRACT_PORT", "the port", lambda url: urlsplit(url).port, "INT"),
    _url("URL_EXTRACT_PROTOCOL", "the protocol", lambda url: urlsplit(url).scheme or None),
    _url("URL_EXTRACT_QUERY", "the query", _query),
)
