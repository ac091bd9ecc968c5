"""The registry's answers to writes that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.registry.forwarding import NO_PRIMARY
from ottla.replicated.errors import Fenced, NotPrimary, TooLarge, Unstored
from ottla.replicated.loss import Loss, TopicLost
from ottla.web.errors import ApiError

STORE_ERROR: Final = 50001
TIMEOUT: Final = 50002
TOO_LARGE: Final = 42209


@contextmanager
def told_as_answers(timeout_ms: int, thing: str, way_out: Callable[[Loss], str]) -> Iterator[None]:
    """What goes wrong within, in a write of a `thing`, is raised as an ApiError; so is its time's end."""
    try:
        yield
    except TimeoutError:
        raise ApiError(500, TIMEOUT, f"The write was not stored within {timeout_ms} ms") from None
    except NotPrimary:
        raise ApiError(500, NO_PRIMARY, "This instance is not the primary") from None
    except Fenced:
        raise ApiError(500, NO_PRIMARY, "Another instance has become the primary") from None
    except TopicLost as lost:
        raise ApiError(500, STORE_ERROR, way_out(lost.loss)) from None
    except TooLarge:
        raise ApiError(422, TOO_LARGE, f"The {thing} is larger than a record of the topic may be") from None
    except Unstored as problem:
        raise ApiError(500, STORE_ERROR, f"The write may not have been stored: {problem}") from None
