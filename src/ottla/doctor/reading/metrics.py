"""Reads brokers' metrics pages, in Prometheus' text format, where the user says that they are."""

from __future__ import annotations

import asyncio
import base64
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Final

from ottla.client.errors import ClusterError
from ottla.doctor.reading.drafts import Draft, answered
from ottla.doctor.reading.look import Look
from ottla.doctor.snapshot import Gap, MetricSamples, NotRead, WhyNot

PAGE_SECONDS: Final = 3.0
MAX_PAGE_BYTES: Final = 32 << 20
_SAMPLE: Final = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL: Final = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


async def read_metrics(look: Look, draft: Draft) -> MetricSamples:
    """The samples of all pages that answer."""
    urls = look.options.metrics_urls
    if not urls:
        reason = "requests to brokers do not tell it; --metrics-from URL names their metrics pages"
        raise NotRead(Gap(WhyNot.NOT_ASKED, reason))
    pages = await asyncio.gather(*(_page(url) for url in urls))
    good = answered(dict(zip(urls, pages, strict=True)), "metrics of", draft)
    return MetricSamples(tuple((url, *sample) for url, text in good.items() for sample in samples(text)))


async def _page(url: str) -> str | ClusterError:
    try:
        return await asyncio.to_thread(_fetched, url)
    except (OSError, ValueError) as problem:  # URLError and its like are OSErrors
        return ClusterError(f"{_without_password(url)}: {problem}")


def _fetched(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http:// or https:// URL")
    request = urllib.request.Request(_without_password(url))
    if parts.username is not None:
        login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=PAGE_SECONDS) as answer:
        page: bytes = answer.read(MAX_PAGE_BYTES + 1)
    if len(page) > MAX_PAGE_BYTES:
        raise ValueError(f"the page has more than {MAX_PAGE_BYTES >> 20} MiB")
    return page.decode("utf-8", errors="replace")


def _without_password(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urllib.parse.urlunsplit(parts._replace(netloc=host))


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each sample in a page of Prometheus' text format."""
    for row in text.splitlines():
        found = None if row.startswith("#") else _SAMPLE.match(row)
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield found[1], {label[1]: label[2] for label in _LABEL.finditer(found[2] or "")}, value
