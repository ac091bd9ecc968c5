"""Documents in a real PostgreSQL as sink and source."""

from __future__ import annotations

import psycopg
import pytest

from ottla.connect.data.record import SinkRecord
from ottla.connect.plugins.api import RetriableError
from ottla.connect.testing import read_records
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
    source,
)

pytestmark = pytest.mark.system("psql", "postgresql")


@pytest.mark.parametrize("seed", range(2))
def test_documents_are_written_exactly_once(postgresql_url: str, seed: int) -> None:
    check_kills(lambda: postgresql_url, exactly_once=True, seed=seed)


def test_offsets_are_kept_by_connector_and_generation(postgresql_url: str) -> None:
    check_ledger(postgresql_url)


def test_records_that_are_no_documents_are_refused(postgresql_url: str) -> None:
    check_refusals(postgresql_url, {"n": "a\0b"}, {"\0": 1}, {"n": [{"x": "\\\0"}]})


def test_a_backslash_before_u0000_is_no_nul(postgresql_url: str) -> None:
    sink(postgresql_url, collection="c").write(records({"n": "\\u0000"}))
    assert contents(postgresql_url, "c") == {("c", "k"): {"n": "\\u0000"}}


def test_ids_come_of_keys_or_fields(postgresql_url: str) -> None:
    check_ids(postgresql_url)


@pytest.mark.parametrize("seed", range(2))
def test_documents_are_read_back_in_the_order_of_their_changes(postgresql_url: str, seed: int) -> None:
    check_reading(postgresql_url, seed)


def test_a_transaction_that_commits_late_is_not_passed(postgresql_url: str) -> None:
    sink(postgresql_url, collection="late").write(records({"n": 0}, key="before"))
    reader = source(postgresql_url, "late")
    first = read_records(reader, {})
    with psycopg.connect(postgresql_url) as late:
        late.execute("""INSERT INTO "late" (id, document) VALUES ('late', '{"n": 1}')""")
        sink(postgresql_url, name="other", collection="late").write(records({"n": 2}, key="after"))
        # The document `after` has a higher number than `late`, which is not there yet: both wait.
        assert read_records(reader, {}, first[-1].source_offset) == []
        late.commit()
    assert [each.record.key for each in read_records(reader, {}, first[-1].source_offset)] == [
        "late",
        "after",
    ]


def test_a_server_that_closed_the_connection_is_tried_again(postgresql_url: str) -> None:
    writer = sink(postgresql_url, collection="c")
    writer.open([PLACE])
    with psycopg.connect(postgresql_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'ottla' AND datname = current_database()"
        )
    batch = records({"n": 1}, {"n": 2})
    with pytest.raises(RetriableError, match="PostgreSQL"):
        writer.write(batch)
    writer.write(batch)
    assert contents(postgresql_url, "c") == {("c", "k"): {"n": 2}}
    assert sink(postgresql_url).open([PLACE]) == {PLACE: 2}


def test_a_commit_whose_answer_was_lost_counts_when_the_batch_comes_again(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = sink(postgresql_url, collection="c")
    writer.open([PLACE])
    lose_the_answer(monkeypatch)
    batch: list[SinkRecord] = records({"n": 1}, {"n": 2})
    with pytest.raises(RetriableError, match="the answer was lost"):
        writer.write(batch)
    writer.write(batch)
    writer.write(records({"n": 3}, first=2))
    assert contents(postgresql_url, "c") == {("c", "k"): {"n": 3}}


def lose_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next batch is committed, and its writer is told that the connection was lost."""
    from ottla.connect.connectors.documents.postgres import PostgresStore

    real = PostgresStore.write

    def write(store: PostgresStore, *arguments: object) -> None:
        real(store, *arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(PostgresStore, "write", real)
        raise RetriableError("the answer was lost")

    monkeypatch.setattr(PostgresStore, "write", write)


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(RetriableError, match="cannot connect to PostgreSQL") as failure:
        sink("postgresql://ottla:secret@127.0.0.1:1/nothing").open([PLACE])
    assert "secret" not in str(failure.value)
