"""The network: requests and their answers between hosts, late, lost, duplicated, reordered, or cut off one
way.

A request is a message or any other object that is not changed after it was sent. The sender gets the answer
or None: the other side refused the connection, hung up, or was not heard in time. After a lost answer the
request was carried out; a duplicated request is answered once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from simulation.world.host import Host
from simulation.world.scheduler import MILLISECOND, Event, Promise, Scheduler

Reply = Callable[[Any], None]
Handler = Callable[[Any, str, Reply], None]
"""Takes a request, the sender's name, and the callback for the answer, now or later."""


@dataclass(slots=True)
class NetworkFaults:
    """The present faults of the network."""

    loss: float = 0.0
    duplication: float = 0.0
    late: float = 0.0
    """The probability that a message takes up to `late_ms`, so that others overtake it."""
    late_ms: int = 300


class Codec(Protocol):
    """Sends messages through real bytes."""

    def __call__(self, message: Any) -> Any:
        """The message as the other side decodes it."""


class Network:
    """All hosts that can be reached, and the connections between them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.faults = NetworkFaults()
        self.blocked: dict[tuple[str, str], None] = {}
        """Pairs (from, to) between which no message arrives."""
        self.slow_ms: dict[tuple[str, str], int] = {}
        self._hosts: dict[str, Host] = {}
        self._handlers: dict[tuple[str, str], Handler] = {}
        self.latency_us = 400
        self.codec: Codec | None = None

    def listen(self, host: Host, service: str, handler: Handler) -> None:
        """Requests to this service of the host go to `handler`, until the host ends."""
        self._hosts[host.name] = host
        self._handlers[host.name, service] = handler

    def hang_up(self, host: Host) -> None:
        """The host no longer listens."""
        for key in [each for each in self._handlers if each[0] == host.name]:
            del self._handlers[key]

    def heal(self) -> None:
        """From now on every message arrives, and soon."""
        self.faults = NetworkFaults()
        self.blocked.clear()
        self.slow_ms.clear()

    def isolate(self, group: list[str], rest: list[str], *, one_way: bool = False) -> None:
        """Cut off messages from `group` to `rest`, and, unless `one_way`, in the other direction."""
        for inside in group:
            for outside in rest:
                self.blocked[inside, outside] = None
                if not one_way:
                    self.blocked[outside, inside] = None

    def reconnect(self) -> None:
        """End all cuts."""
        self.blocked.clear()
        self.slow_ms.clear()

    def ask(self, source: Host, to: str, service: str, request: Any, timeout_ms: float) -> Promise:
        """The answer, or None."""
        question = _Question(self, source, to, service, request)
        question.timer = source.after_ms(timeout_ms, question.give_up)
        question.send()
        return question.answer

    def _delay(self, source: str, to: str) -> int | None:
        """The time that a message takes; None if it never arrives."""
        if (source, to) in self.blocked:
            return None
        draw = self._scheduler.random.random
        faults = self.faults
        if faults.loss and draw() < faults.loss:
            return None
        delay = self.latency_us + int(self.latency_us * 2 * draw())
        if self.slow_ms:
            delay += self.slow_ms.get((source, to), 0) * MILLISECOND
        if faults.late and draw() < faults.late:
            delay += int(faults.late_ms * MILLISECOND * draw())
        return delay


class _Question:
    """One request under way."""

    __slots__ = ("_life", "_network", "_request", "_service", "_source", "_to", "answer", "timer")

    def __init__(self, network: Network, source: Host, to: str, service: str, request: Any) -> None:
        self._network = network
        self._source = source
        self._to = to
        self._service = service
        codec = network.codec
        self._request = request if codec is None else codec(request)
        self._life = source.life
        self.answer = source.promise()
        self.timer: Event | None = None

    def send(self) -> None:
        network, scheduler = self._network, self._network._scheduler
        target = network._hosts.get(self._to)
        delay = network._delay(self._source.name, self._to)
        if delay is None:
            return
        if target is None or not target.alive:
            self._source.deliver_at(scheduler.now + 2 * delay, self.give_up)  # connection refused
            return
        target.deliver_at(scheduler.now + delay, self._arrive, True)
        duplication = network.faults.duplication
        if duplication and scheduler.random.random() < duplication:
            later = delay + int(network.faults.late_ms * MILLISECOND * scheduler.random.random())
            target.deliver_at(scheduler.now + later, self._arrive, False)

    def _arrive(self, answered: bool) -> None:
        handler = self._network._handlers.get((self._to, self._service))
        if handler is None:
            if answered:
                self._come_back(None)
            return
        handler(self._request, self._source.name, self._come_back if answered else _ignore_answer)

    def _come_back(self, response: Any) -> None:
        if self.answer.done:
            return
        delay = self._network._delay(self._to, self._source.name)
        if delay is None:
            return
        codec = self._network.codec
        if codec is not None and response is not None:
            response = codec(response)
        scheduler = self._network._scheduler
        source = self._source
        if source.life == self._life:
            source.deliver_at(scheduler.now + delay, self._finish, response)

    def _finish(self, response: Any) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.answer.resolve(response)

    def give_up(self) -> None:
        self._finish(None)


def _ignore_answer(response: Any) -> None:
    """The answer to a duplicated request."""
