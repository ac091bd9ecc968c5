"""Clients of MQTT whose sessions outlive their connections, by paho."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from support.clients.confluent import eventually
from support.servers.services import ServiceProcess

TIMEOUT_S = 60


class Device:
    """A client whose session outlives its connections. takes: acknowledge what comes."""

    def __init__(
        self, client_id: str, version: Any = MQTTProtocolVersion.MQTTv5, *, takes: bool = True, **given: Any
    ) -> None:
        self._version = version
        clean = {} if version is MQTTProtocolVersion.MQTTv5 else {"clean_session": False}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=version,
            manual_ack=not takes,
            **clean,
            **given,
        )
        self.messages: list[Any] = []
        self.connects: list[Any] = []
        self.ends: list[int] = []
        self.granted: list[Sequence[Any]] = []
        self.client.on_message = lambda _c, _u, message: self.messages.append(message)
        self.client.on_subscribe = lambda _c, _u, _m, reasons, _p: self.granted.append(reasons)
        self.client.on_connect = lambda _c, _u, flags, reason, _p: self.connects.append((flags, reason))
        self.client.on_disconnect = lambda _c, _u, _f, reason, _p: self.ends.append(reason.value)

    def connect(
        self, service: ServiceProcess, seconds: int = 100, *, clean: bool = False, most: int | None = None
    ) -> bool:
        """Whether the session was there."""
        before = len(self.connects)
        if self._version is MQTTProtocolVersion.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = seconds
            if most is not None:
                properties.ReceiveMaximum = most
            self.client.connect("127.0.0.1", service.port, clean_start=clean, properties=properties)
        else:
            self.client.connect("127.0.0.1", service.port)
        self.client.loop_start()
        eventually(lambda: len(self.connects) > before, "CONNACK came")
        flags, reason = self.connects[-1]
        assert reason.value == 0, reason
        return bool(flags.session_present)

    def connects_in_time(self, service: ServiceProcess) -> bool:
        """The same, where copies of the proxy have yet to agree who has it."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return self.connect(service)
            except AssertionError:
                self.client.loop_stop()
                if time.monotonic() > deadline:
                    raise

    def subscribe(self, filter_: str = "d/#", qos: int = 1) -> None:
        before = len(self.granted)
        self.client.subscribe(filter_, qos)
        eventually(lambda: len(self.granted) > before, "SUBACK came")
        assert self.granted[-1][0].value == min(qos, 1)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def numbers(self, count: int) -> list[int]:
        """The messages' texts, once so many have come."""
        eventually(lambda: len(self.messages) >= count, f"{count} messages came, not {len(self.messages)}")
        return [int(each.payload) for each in self.messages]

    def has_all(self, wanted: range) -> None:
        """Wait for these, whatever else comes."""
        eventually(lambda: {int(each.payload) for each in self.messages} >= {*wanted}, f"{wanted} came")

    def different(self, count: int) -> list[int]:
        """Without those that came again."""
        eventually(lambda: len({each.payload for each in self.messages}) >= count, f"{count} messages came")
        return list(dict.fromkeys(int(each.payload) for each in self.messages))
