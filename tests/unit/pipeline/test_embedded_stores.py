"""The embedded document store and search index."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ottla.pipeline.stores import KEPT_BATCHES, Document, StoreError
from ottla.pipeline.stores.sqlite import SqliteDocuments
from ottla.pipeline.stores.tantivy_index import TantivyIndex
from support.pipeline.stores import check_document_store, check_many_documents, check_search_index, document


def test_sqlite_is_a_document_store(tmp_path: Path) -> None:
    check_document_store(lambda: SqliteDocuments(tmp_path / "below" / "documents.sqlite"))


def test_tantivy_is_a_search_index(tmp_path: Path) -> None:
    check_search_index(lambda: TantivyIndex(tmp_path / "below" / "search"))


def test_tantivy_gives_more_documents_than_a_page_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.pipeline.stores.tantivy_index.PAGE_DOCUMENTS", 100)
    index = TantivyIndex(tmp_path)
    check_many_documents(index, 350)
    index.close()


def test_sqlite_keeps_the_fields(tmp_path: Path) -> None:
    store = SqliteDocuments(tmp_path / "documents.sqlite")
    wanted = document("1", compound=-0.25, tags=["a", None])

    store.write_batch("query", 0, [wanted], {})

    assert store.get("1") == wanted
    assert store.get("2") is None
    store.close()


def test_a_batch_that_fails_half_way_leaves_nothing_of_itself(tmp_path: Path) -> None:
    store = SqliteDocuments(tmp_path / "documents.sqlite")
    broken = Document(None, {})  # type: ignore[arg-type]

    with pytest.raises(StoreError, match="cannot write"):
        store.write_batch("query", 0, [document("1"), broken], {"out": {0: 1}})

    assert store.count() == 0
    assert store.outputs_before("query", 1) == {}
    store.close()


def test_old_batch_rows_are_dropped(tmp_path: Path) -> None:
    store = SqliteDocuments(tmp_path / "documents.sqlite")
    for batch_id in (0, 1, KEPT_BATCHES):
        store.write_batch("query", batch_id, [], {"out": {0: batch_id}})
    store.close()

    with sqlite3.connect(tmp_path / "documents.sqlite") as connection:
        rows = connection.execute("SELECT batch_id FROM batches ORDER BY batch_id").fetchall()
    connection.close()
    assert rows == [(1,), (KEPT_BATCHES,)]


def test_a_store_that_was_made_again_has_another_identity(tmp_path: Path) -> None:
    def identities(name: str) -> tuple[str, str]:
        store, index = SqliteDocuments(tmp_path / name / "db"), TantivyIndex(tmp_path / name / "search")
        try:
            return store.identity, index.identity
        finally:
            store.close()
            index.close()

    assert not set(identities("one")) & set(identities("two"))


@pytest.mark.parametrize("store", [SqliteDocuments, TantivyIndex])
def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, store: type[SqliteDocuments] | type[TantivyIndex]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=f"cannot open .*{tmp_path / 'file' / 'store'}"):
        store(tmp_path / "file" / "store")
