"""The two Streams applications of the sample pipeline, by the test kit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from ottla.demo.connect.second_act import APPS, FILES
from ottla.streams.testing import TopologyTestDriver

pytestmark = pytest.mark.spark


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"sample_{name}", FILES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize("name", APPS)
def test_an_application_is_described_without_spark(name: str) -> None:
    words = [sys.executable, "-m", "ottla", "streams", "describe", str(FILES / f"{name}.py")]
    described = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert described.returncode == 0, described.stderr
    assert "pipeline." in described.stdout


def test_a_tweet_gets_its_sentiment_and_strong_opinions_go_on(spark: SparkSession) -> None:
    sentiment, opinions = module("sentiment"), module("opinions")
    texts = {
        "1": "What a great, lovely day!",
        "2": "This is horrible. I hate it.",
        "3": "The train left at nine.",
    }
    with TopologyTestDriver(sentiment.app, spark) as driver:
        driver.input("pipeline.tweets", key=str, value=sentiment.Tweet).pipe_all(
            [(id, sentiment.Tweet(id, text, 1.5, 7)) for id, text in texts.items()]
        )
        scored = driver.output("pipeline.scored", key=str, value=sentiment.ScoredTweet).read_map()
    assert {id: tweet.sentiment for id, tweet in scored.items()} == {
        "1": "positive",
        "2": "negative",
        "3": "neutral",
    }
    assert scored["1"].text == texts["1"] and scored["1"].human_score == 1.5 and scored["1"].posted_at_ms == 7
    assert scored["1"].compound > 0.5 and scored["2"].compound < -0.5 and scored["3"].compound == 0
    with TopologyTestDriver(opinions.app, spark) as driver:
        driver.input("pipeline.documents", key=str, value=sentiment.ScoredTweet).pipe_all(
            list(scored.items())
        )
        found = driver.output("pipeline.opinions", key=str, value=opinions.Opinion).read_map()
    assert found.keys() == {"1", "2"}
    assert found["2"] == opinions.Opinion("2", texts["2"], "negative", abs(scored["2"].compound))
