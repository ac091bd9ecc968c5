"""The embedded search index: a tantivy index in a directory.

A batch deletes each id and adds its document in one commit. Tantivy publishes a commit by renaming
`meta.json`, so a kill at any line leaves the index at the commit before or after the batch; a repeated batch
replaces its own documents.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import tantivy

from ottla.pipeline.stores import Document, StoreError

WRITER_HEAP_BYTES = 32 << 20
PAGE_DOCUMENTS = 10_000


class TantivyIndex:
    """A `SearchIndex` in a directory, for one process at a time. Any thread may use it; calls take turns."""

    name = "tantivy"

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._lock = threading.Lock()
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, fast=True, tokenizer_name="raw")
        builder.add_text_field("text", stored=False, tokenizer_name="en_stem")
        builder.add_text_field("sentiment", stored=False, tokenizer_name="raw")
        builder.add_text_field("document", stored=True, tokenizer_name="raw", index_option="basic")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._index = tantivy.Index(builder.build(), path=str(self._directory))
            self._writer: tantivy.IndexWriter | None = self._index.writer(WRITER_HEAP_BYTES, 1)
            self._identity = _identity(self._directory / "index.id")
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot open the search index {self._directory}: {error}") from error

    @property
    def identity(self) -> str:
        return self._identity

    def write_batch(self, documents: Sequence[Document]) -> None:
        with self._lock:
            if self._writer is None:
                raise StoreError(f"the search index {self._directory} is closed")
            try:
                for document in documents:
                    self._writer.delete_documents_by_term("id", document.id)
                    self._writer.add_document(_tantivy_document(document))
                self._writer.commit()
            except (OSError, ValueError) as error:
                self._writer.rollback()
                raise StoreError(f"cannot write to the search index {self._directory}: {error}") from error

    def count(self) -> int:
        return int(self._searcher().num_docs)

    def ids(self) -> Iterator[str]:
        searcher = self._searcher()
        everything = tantivy.Query.all_query()
        for offset in range(0, searcher.num_docs, PAGE_DOCUMENTS):
            for _, address in searcher.search(everything, limit=PAGE_DOCUMENTS, offset=offset).hits:
                yield str(searcher.doc(address)["id"][0])

    def search(self, text: str, limit: int = 10) -> list[str]:
        query, _ = self._index.parse_query_lenient(text, ["text"])
        searcher = self._searcher()
        hits = searcher.search(query, limit=limit).hits
        return [str(searcher.doc(address)["id"][0]) for _, address in hits]

    def close(self) -> None:
        with self._lock:
            if self._writer is not None:
                writer, self._writer = self._writer, None
                writer.wait_merging_threads()

    def _searcher(self) -> tantivy.Searcher:
        with self._lock:
            self._index.reload()
            return self._index.searcher()


def _identity(path: Path) -> str:
    """The index's own id, made if there is none. Its file appears whole or not at all."""
    if not path.exists():
        temporary = path.with_suffix(".new")
        temporary.write_text(str(uuid.uuid4()), encoding="ascii")
        temporary.replace(path)
    return path.read_text(encoding="ascii")


def _tantivy_document(document: Document) -> tantivy.Document:
    return tantivy.Document(
        id=document.id,
        text=str(document.fields.get("text", "")),
        sentiment=str(document.fields.get("sentiment", "")),
        document=json.dumps(document.fields),
    )
