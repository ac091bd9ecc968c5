"""Step 1: the feed, a file to which tweets are appended, one a line, as JSON."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ottla.demo.messages import tweet_to_json
from ottla.demo.tweets import Tweet

FILE: Final = "tweets.jsonl"
PIECE: Final = 200
"""The most tweets of a write, where no rate is asked for."""


class Feed:
    """Appends the tweets that the file does not have yet, in a thread, at a rate or as fast as it goes.

    A kill may leave a part of a line at the end: the next start cuts it off.
    """

    def __init__(
        self,
        directory: Path,
        tweets: Sequence[Tweet],
        rate: float | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """rate: tweets a second. Raises OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        self.path: Final = directory / FILE
        self._rate = rate
        self._clock = clock
        self._stop = threading.Event()
        self._problem: str | None = None
        self.written = whole_lines(self.path)
        self._left = list(tweets[self.written :])
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    @property
    def failure(self) -> str | None:
        """Why no more tweets are written; None while all is well."""
        return self._problem

    @property
    def done(self) -> bool:
        """Whether all tweets are in the file."""
        return not self._left

    def start(self) -> None:
        """Begin to append."""
        self._thread.start()

    def stop(self) -> None:
        """Append no more. Safe to call twice."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            with self.path.open("ab") as file:
                while self._left and not self._stop.is_set():
                    piece = self._left[: 1 if self._rate else PIECE]
                    now_ms = int(self._clock() * 1000)
                    lines = (
                        tweet_to_json(tweet.id, tweet.text, tweet.human_score, now_ms) for tweet in piece
                    )
                    file.write(b"".join(line + b"\n" for line in lines))
                    file.flush()
                    self.written += len(piece)
                    del self._left[: len(piece)]
                    if self._rate:
                        self._stop.wait(1 / self._rate)
        except OSError as problem:
            self._problem = f"{self.path}: can't write it: {problem.strerror or problem}"


def whole_lines(path: Path) -> int:
    """The number of lines of a file, after the part of a line at its end was cut off; 0 without a file."""
    try:
        with path.open("r+b") as file:
            data = file.read()
            whole = data.rfind(b"\n") + 1
            file.truncate(whole)
    except FileNotFoundError:
        return 0
    return data.count(b"\n", 0, whole)
