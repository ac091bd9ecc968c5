"""Checks that every document store and every search index must pass."""

from __future__ import annotations

from collections.abc import Callable

from ottla.pipeline.stores import Document, DocumentStore, SearchIndex


def document(document_id: str, text: str = "a fine day", **fields: object) -> Document:
    return Document(document_id, {"id": document_id, "text": text, "sentiment": "positive", **fields})


def check_document_store(open_store: Callable[[], DocumentStore]) -> None:
    """`open_store` opens the same store each time, an empty one at first."""
    store = open_store()
    identity = store.identity
    assert store.count() == 0
    assert store.outputs_before("query", 99) == {}

    # A batch, the same batch again as after a crash, and one more that replaces a document.
    first = [document("1"), document("2", text='it\'s "quoted" — ünïcödé \0 and 🙂')]
    store.write_batch("query", 0, first, {"out": {0: 5, 1: 3}})
    store.write_batch("query", 0, first, {"out": {0: 5, 1: 3}})
    store.write_batch("query", 1, [document("2"), document("3")], {"out": {0: 6, 1: 3}})
    store.write_batch("other", 7, [], {"elsewhere": {2: 1}})
    assert store.count() == 3
    assert sorted(store.ids()) == ["1", "2", "3"]

    # Its documents and batches are there again after it was closed.
    store.close()
    store.close()
    store = open_store()
    assert store.identity == identity
    assert sorted(store.ids()) == ["1", "2", "3"]
    assert store.outputs_before("query", 0) == {}
    assert store.outputs_before("query", 1) == {"out": {0: 5, 1: 3}}
    assert store.outputs_before("query", 50) == {"out": {0: 6, 1: 3}}
    assert store.outputs_before("other", 8) == {"elsewhere": {2: 1}}
    store.close()


def check_search_index(open_index: Callable[[], SearchIndex]) -> None:
    """`open_index` opens the same index each time, an empty one at first."""
    index = open_index()
    identity = index.identity
    assert index.count() == 0
    assert list(index.ids()) == []

    batch = [document("1", text="The trains were running late"), document("2", text="sunshine 🙂 everywhere")]
    index.write_batch(batch)
    index.write_batch(batch)
    index.write_batch([document("2", text="rain, rain & nothing else"), document("3", text="a run")])
    index.write_batch([])
    assert index.count() == 3
    assert sorted(index.ids()) == ["1", "2", "3"]
    assert index.search("sunshine") == []
    assert index.search("rain") == ["2"]
    assert index.search("running") != []

    index.close()
    index.close()
    index = open_index()
    assert index.identity == identity
    assert sorted(index.ids()) == ["1", "2", "3"]
    index.close()


def check_many_documents(index: SearchIndex, count: int) -> None:
    """More documents than a page or a request holds come back, each once."""
    index.write_batch([document(str(number)) for number in range(count)])
    ids = list(index.ids())
    assert len(ids) == len(set(ids)) == index.count() == count
