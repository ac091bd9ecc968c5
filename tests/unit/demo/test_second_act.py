"""The parts of the demo's second act: the feed, the counts of each step, the files of the pipeline."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from ottla.cli.frame.connector_files import read_connectors
from ottla.client.cluster import KafkaCluster
from ottla.demo.connect.feed import FILE, Feed, whole_lines
from ottla.demo.connect.second_act import APPS, CONNECTORS, FILES, SEARCH
from ottla.demo.connect.stages import DOCUMENTS, OPINIONS, SCORED, TOPICS, TWEETS, Found, Tally, stored_ids
from ottla.demo.tweets import Tweet

EXAMPLE = Path(__file__).parents[3] / "examples" / "connect" / "pipeline"
SET = [Tweet(f"{number}", f"text {number}\nünd 'so'", number / 10) for number in range(450)]


def finished(feed: Feed) -> list[dict[str, object]]:
    feed.start()
    feed._thread.join(30)
    assert feed.done and feed.failure is None
    return [json.loads(line) for line in feed.path.read_text(encoding="utf-8").splitlines()]


def test_the_feed_has_each_tweet_in_a_line(tmp_path: Path) -> None:
    lines = finished(Feed(tmp_path / "feed", SET, None, clock=lambda: 5.0))
    assert [line["id"] for line in lines] == [tweet.id for tweet in SET]
    assert lines[7] == {"id": "7", "text": SET[7].text, "human_score": 0.7, "posted_at_ms": 5000}


@pytest.mark.parametrize("kept_bytes", [0, 1, 70, 80, 3000])
def test_a_feed_that_was_killed_in_a_line_goes_on_with_that_line(tmp_path: Path, kept_bytes: int) -> None:
    finished(Feed(tmp_path, SET, None))
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(data[:kept_bytes])
    lines = finished(Feed(tmp_path, SET, None))
    assert [line["id"] for line in lines] == [tweet.id for tweet in SET]


def test_a_part_of_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert whole_lines(path) == 0
    path.write_bytes(b"one\ntwo\nthr")
    assert whole_lines(path) == 2
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_feed_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    feed = Feed(tmp_path, SET, None)
    (tmp_path / FILE).mkdir()
    feed.start()
    feed._thread.join(30)
    assert feed.failure is not None and FILE in feed.failure and not feed.done


def test_a_tally_counts_ids_and_strong_opinions() -> None:
    tally = Tally(KafkaCluster("127.0.0.1:1"))
    for topic, value in (
        (TWEETS, b'{"id": "1"}'),
        (SCORED, b'{"id": "1", "compound": -0.7}'),
        (SCORED, b'{"id": "1", "compound": -0.7}'),
        (SCORED, b'{"id": "2", "compound": 0.4}'),
        (SCORED, b"[]"),
        (SCORED, b'{"id": "3", "compound": "much"}'),
        (SCORED, b"\xff"),
        (SCORED, None),
    ):
        tally.add(topic, value)
    assert tally.records() == {TWEETS: 1, SCORED: 3, DOCUMENTS: 0, OPINIONS: 0}
    assert tally.ids()[SCORED] == Counter({"1": 2, "2": 1})
    assert tally.strong() == {"1"}


def test_each_way_in_which_a_step_can_be_wrong_is_told() -> None:
    wanted = frozenset("abc")
    assert Found("x", Counter("abc"), wanted).problem() is None
    assert Found("x", Counter("ab"), wanted).problem() == "x: 1 missing, 0 too many, 0 more than once"
    assert Found("x", Counter("abcd"), wanted).problem() == "x: 0 missing, 1 too many, 0 more than once"
    assert Found("x", Counter("abcc"), wanted).problem() == "x: 0 missing, 0 too many, 1 more than once"


def test_a_store_without_documents_has_none(tmp_path: Path) -> None:
    path = tmp_path / "a b.sqlite"
    assert stored_ids(f"sqlite://{path}", "tweets") == []
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (id TEXT)")
        assert stored_ids(f"sqlite://{path}", "tweets") == []
        connection.execute("CREATE TABLE tweets (id TEXT)")
        connection.execute("INSERT INTO tweets VALUES ('7')")
    connection.close()
    assert stored_ids(f"sqlite://{path}", "tweets") == ["7"]


def test_the_example_has_the_files_that_the_demo_runs() -> None:
    files = {path.name: path.read_bytes() for path in FILES.iterdir() if path.is_file()}
    assert files.keys() == {
        "worker.properties",
        *(f"{name}.json" for name in (*CONNECTORS, SEARCH)),
        *(f"{name}.py" for name in APPS),
    }
    for name, data in files.items():
        assert (EXAMPLE / name).read_bytes() == data, f"cp {FILES / name} {EXAMPLE}"


def test_the_connectors_of_the_pipeline_form_a_chain() -> None:
    wanted = {one.name: one.config for one in read_connectors([str(path) for path in FILES.glob("*.json")])}
    assert wanted.keys() == {f"pipeline-{name}" for name in (*CONNECTORS, SEARCH)}
    assert wanted["pipeline-tweets-in"]["topic"] == TWEETS
    assert wanted["pipeline-documents-out"]["topics"] == SCORED
    stores = [wanted[f"pipeline-documents-{way}"] for way in ("out", "in")]
    assert stores[0]["store.url"] == stores[1]["store.url"]
    assert stores[0]["collection"] == stores[1]["collection"]
    assert wanted["pipeline-documents-in"]["topic"] == DOCUMENTS
    assert wanted["pipeline-opinions-out"]["topics"] == wanted["pipeline-search-out"]["topics"] == OPINIONS
    apps = "".join((FILES / f"{name}.py").read_text() for name in APPS)
    assert all(f'"{topic}"' in apps for topic in TOPICS)
