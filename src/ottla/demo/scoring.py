"""VADER as a pandas UDF: texts in, compound scores out, a whole Arrow batch at a time, in Spark's workers.

Spark reads the annotations to learn the kind of function, so here they are types and not texts.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd


def score_texts(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    """The compound score, -1 to 1, of each text. The lexicon is read once for each task."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # type: ignore[import-untyped]

    analyzer = SentimentIntensityAnalyzer()
    for texts in batches:
        yield texts.map(lambda text: analyzer.polarity_scores(text)["compound"]).astype("float64")


def vader() -> Any:
    """The function as a Spark column function: `vader()(column)`."""
    from pyspark.sql.pandas.functions import pandas_udf

    return pandas_udf(score_texts, "double")  # type: ignore[call-overload]
