"""Network namespaces that see each other through this process: delays, losses, partitions, from a seed.

Each node has a namespace with one TUN device, the test itself a device in its own; a thread takes every
packet from one and gives it to another, later, or never. It does what `tc netem` does between veth pairs, on
kernels without it too, and can also keep single directions apart. The TCP on both sides is the kernel's.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import itertools
import os
import random
import selectors
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

TUN = Path("/dev/net/tun")
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU_BYTES = 16_000
MAX_DELAYED_PACKETS = 20_000
HERE = 254
"""The host number of the test itself."""


def why_not_here() -> str | None:
    """The reason why this machine can't do it, in a line; None if it can."""
    if shutil.which("ip") is None:
        return "ip is not installed: apt-get install iproute2"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} is not there"
    name = f"ottla-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        return "this machine allows no network namespaces"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return None


@dataclass(frozen=True, slots=True)
class Weather:
    """The fate of packets: each waits `delay_ms` give or take `jitter_ms`; the share `loss` is dropped."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0


@dataclass(slots=True)
class Network:
    """Hosts by number; the rules may change at any time."""

    prefix: str
    name: str
    devices: dict[int, int]
    dice: random.Random
    weather: Weather = field(default_factory=Weather)
    cut: set[tuple[int, int]] = field(default_factory=set)
    forwarded: int = 0
    dropped: int = 0
    _closed: bool = False

    def host(self, number: int) -> str:
        """The address of a host."""
        return f"{self.prefix}.{number}"

    def inside(self, number: int) -> list[str]:
        """The words before a command that make it run in a host's namespace."""
        return ["ip", "netns", "exec", f"{self.name}-{number}"]

    # --- rules ------------------------------------------------------------------------------------------

    def set_weather(self, **changes: float) -> None:
        self.weather = replace(self.weather, **changes)

    def separate(self, some: Iterable[int], others: Iterable[int], *, both_ways: bool = True) -> None:
        """From now on nothing goes from `some` to `others`, nor back unless `both_ways` is False."""
        pairs = set(itertools.product(some, others))
        self.cut = self.cut | pairs | ({(b, a) for a, b in pairs} if both_ways else set())

    def isolate(self, number: int, *, from_test: bool = False) -> None:
        """Cut a node off from all other nodes, and from the test if wanted."""
        others = set(self.devices) - {number, HERE} | ({HERE} if from_test else set())
        self.separate([number], others)

    def join(self) -> None:
        """Let all nodes reach each other again."""
        self.cut = set()

    # --- packets ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Forward packets until `close`."""
        numbers = {device: number for number, device in self.devices.items()}
        delayed: list[tuple[float, int, int, bytes]] = []
        count = itertools.count()
        with selectors.DefaultSelector() as selector:
            for device in numbers:
                selector.register(device, selectors.EVENT_READ)
            while not self._closed:
                now = time.monotonic()
                while delayed and delayed[0][0] <= now:
                    _, _, device, packet = heapq.heappop(delayed)
                    self._give(device, packet)
                wait = min(0.05, delayed[0][0] - now) if delayed else 0.05
                for key, _ in selector.select(wait):
                    for packet in _packets(key.fd):
                        device, due = self._route(numbers[key.fd], packet)
                        if device < 0 or len(delayed) > MAX_DELAYED_PACKETS:
                            self.dropped += 1
                        elif due <= 0:
                            self._give(device, packet)
                        else:
                            entry = (time.monotonic() + due, next(count), device, packet)
                            heapq.heappush(delayed, entry)

    def _route(self, source: int, packet: bytes) -> tuple[int, float]:
        """Which device a packet goes to, -1 for none, and after how many seconds."""
        if len(packet) < 20 or packet[0] >> 4 != 4:
            return -1, 0
        target = packet[19]
        device = self.devices.get(target, -1)
        weather = self.weather
        if (source, target) in self.cut or (weather.loss and self.dice.random() < weather.loss):
            return -1, 0
        jitter_ms = self.dice.uniform(-weather.jitter_ms, weather.jitter_ms) if weather.jitter_ms else 0.0
        if weather.duplication and self.dice.random() < weather.duplication:
            self._give(device, packet)
        return device, max(0.0, weather.delay_ms + jitter_ms) / 1000

    def _give(self, device: int, packet: bytes) -> None:
        # a full queue of the other side's: lost, as on any network
        with contextlib.suppress(OSError):
            os.write(device, packet)
            self.forwarded += 1

    def close(self) -> None:
        self._closed = True


def _packets(device: int) -> Iterator[bytes]:
    """The packets that a device has now, up to a bound."""
    for _ in range(64):
        try:
            yield os.read(device, MTU_BYTES + 64)
        except OSError:
            return


@contextmanager
def network(hosts: Iterable[int], seed: int = 1) -> Iterator[Network]:
    """Namespaces and devices for the length of the block, for `hosts` and for the test itself (HERE)."""
    dice = random.Random(seed)
    token = os.getpid() % 100_000
    prefix = f"10.{100 + token % 100}.{token // 100 % 250}"
    name = f"ottla-{token}"
    devices: dict[int, int] = {}
    made: list[int] = []
    switch: Network | None = None
    try:
        for number in [*hosts, HERE]:
            interface = f"o{token}n{number}"
            devices[number] = _open_tun(interface)
            address = ["addr", "add", f"{prefix}.{number}/24", "dev", interface]
            up = ["link", "set", interface, "mtu", str(MTU_BYTES), "up"]
            if number == HERE:
                _ip(*address)
                _ip(*up)
            else:
                _ip("netns", "add", f"{name}-{number}")
                made.append(number)
                _ip("link", "set", interface, "netns", f"{name}-{number}")
                for command in (["link", "set", "lo", "up"], address, up):
                    _ip("-n", f"{name}-{number}", *command)
        switch = Network(prefix, name, devices, dice)
        thread = threading.Thread(target=switch.run, daemon=True)
        thread.start()
        yield switch
        switch.close()
        thread.join(10)
    finally:
        if switch is not None:
            switch.close()
        for device in devices.values():
            os.close(device)
        for number in made:
            _ip("netns", "del", f"{name}-{number}")


def _open_tun(interface: str) -> int:
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", interface.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
