"""The stores on real servers: PostgreSQL of the machine's own package, Elasticsearch from Maven."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import requests

from ottla.pipeline.stores import StoreError
from ottla.pipeline.stores.elasticsearch import ElasticsearchIndex
from ottla.pipeline.stores.postgres import PostgresDocuments
from support.pipeline.stores import check_document_store, check_many_documents, check_search_index, document
from support.servers.elasticsearch import elasticsearch


@pytest.fixture(scope="module", params=[pytest.param("6.8.23", marks=pytest.mark.long), "7.17.29"])
def elasticsearch_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with elasticsearch(request.param) as url:
        yield url


@pytest.mark.system("psql", "postgresql")
def test_postgresql_is_a_document_store(postgresql_url: str) -> None:
    check_document_store(lambda: PostgresDocuments(postgresql_url))


@pytest.mark.system("psql", "postgresql")
def test_postgresql_documents_can_be_asked_for_by_their_fields(postgresql_url: str) -> None:
    store = PostgresDocuments(postgresql_url)
    store.write_batch("query", 0, [document("a", compound=0.5), document("b", compound=-0.5)], {})

    with psycopg.connect(postgresql_url) as connection:
        rows = connection.execute(
            "SELECT id FROM ottla_documents WHERE (document->>'compound')::float < 0"
        ).fetchall()

    assert rows == [("b",)]
    store.close()


@pytest.mark.system("psql", "postgresql")
def test_a_connection_that_the_server_closed_is_made_again(postgresql_url: str) -> None:
    store = PostgresDocuments(postgresql_url)
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name='ottla'"
        )

    with pytest.raises(StoreError, match="PostgreSQL"):
        store.write_batch("query", 1, [document("c")], {})
    store.write_batch("query", 1, [document("c")], {})

    assert "c" in set(store.ids())
    store.close()


def test_a_postgresql_that_is_not_there_says_so_without_the_password() -> None:
    with pytest.raises(StoreError, match="cannot connect to PostgreSQL") as failure:
        PostgresDocuments("postgresql://ottla:secret@127.0.0.1:1/nothing")
    assert "secret" not in str(failure.value)


def test_elasticsearch_is_a_search_index(elasticsearch_url: str) -> None:
    check_search_index(lambda: ElasticsearchIndex(elasticsearch_url, "contract"))


def test_elasticsearch_gives_more_documents_than_a_request_holds(elasticsearch_url: str) -> None:
    index = ElasticsearchIndex(elasticsearch_url, "many")
    check_many_documents(index, 2500)
    index.close()


def test_an_index_that_was_made_again_has_another_identity(elasticsearch_url: str) -> None:
    first = ElasticsearchIndex(elasticsearch_url, "again").identity
    requests.delete(f"{elasticsearch_url}/again", timeout=30)
    assert ElasticsearchIndex(elasticsearch_url, "again").identity != first


def test_a_document_that_does_not_fit_the_mapping_is_an_error(elasticsearch_url: str) -> None:
    index = ElasticsearchIndex(elasticsearch_url, "strict")
    with pytest.raises(StoreError, match="did not take a document"):
        index.write_batch([document("1", compound="much")])
    index.close()


@pytest.mark.parametrize("url", ["", "localhost:9200", "ftp://localhost:9200"])
def test_what_is_no_elasticsearch_url_is_an_error(url: str) -> None:
    with pytest.raises(StoreError, match="looks like http://host:9200"):
        ElasticsearchIndex(url)


def test_an_elasticsearch_that_is_not_there_says_so_without_the_password() -> None:
    with pytest.raises(StoreError, match=r"no answer from Elasticsearch at http://127\.0\.0\.1:1") as failure:
        ElasticsearchIndex("http://elastic:secret@127.0.0.1:1")
    assert "secret" not in str(failure.value)
