"""Documents in SQLite as sink and source."""

from __future__ import annotations

import sqlite3
from itertools import count
from pathlib import Path

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors.documents.sink import DocumentSink
from ottla.connect.connectors.documents.source import DocumentSource
from ottla.connect.plugins.api import RetriableError
from ottla.connect.testing import settings_of
from support.connect.documents import (
    PLACE,
    check_ids,
    check_kills,
    check_ledger,
    check_reading,
    check_refusals,
    contents,
    records,
    sink,
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/documents%20.db"


@pytest.mark.parametrize("seed", range(3))
def test_documents_are_written_exactly_once(tmp_path: Path, seed: int) -> None:
    numbers = count()
    check_kills(lambda: f"sqlite://{tmp_path}/{next(numbers)}.db", exactly_once=True, seed=seed)


def test_offsets_are_kept_by_connector_and_generation(url: str) -> None:
    check_ledger(url)


def test_records_that_are_no_documents_are_refused(url: str) -> None:
    check_refusals(url)


def test_ids_come_of_keys_or_fields(url: str) -> None:
    check_ids(url)


@pytest.mark.parametrize("seed", range(3))
def test_documents_are_read_back_in_the_order_of_their_changes(url: str, seed: int) -> None:
    check_reading(url, seed)


def test_a_locked_file_is_tried_again_and_nothing_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.pipeline.stores.sqlite.BUSY_TIMEOUT_SECONDS", 0.01)
    url = f"sqlite://{tmp_path}/d.db"
    writer = sink(url, collection="c")
    writer.open([PLACE])
    other = sqlite3.connect(tmp_path / "d.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RetriableError, match="locked"):
        writer.write(records({"n": 1}))
    other.execute("ROLLBACK")
    writer.write(records({"n": 1}))
    assert contents(url, "c") == {("c", "k"): {"n": 1}}
    other.close()


@pytest.mark.parametrize("connector", [DocumentSink, DocumentSource])
@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (None, "store.url"),
        ("oracle://scott:tiger@host/x", r"store.url=\[hidden\]: begins with none of"),
        ("sqlite:", "names no file"),
        ("documents.db", "begins with none of"),
    ],
)
def test_bad_urls_are_named_without_their_passwords(
    connector: type[DocumentSink] | type[DocumentSource], url: str | None, problem: str
) -> None:
    texts = {} if url is None else {"store.url": url}
    with pytest.raises(ConfigError, match=problem) as error:
        connector(settings_of(connector, texts))
    assert "tiger" not in str(error.value)


@pytest.mark.parametrize("missing", ["collection", "topic"])
def test_the_source_needs_collection_and_topic(url: str, missing: str) -> None:
    texts = {"store.url": url, "collection": "c", "topic": "t"}
    del texts[missing]
    with pytest.raises(ConfigError, match=missing):
        DocumentSource(settings_of(DocumentSource, texts))


def test_an_error_among_the_offsets_leaves_no_document(url: str) -> None:
    writer = sink(url, collection="c")
    with pytest.raises(OverflowError):
        writer.write(records({"n": 1}, first=2**63 - 1))
    assert contents(url, "c") == {}
    writer.write(records({"n": 1}))
    assert contents(url, "c") == {("c", "k"): {"n": 1}}
