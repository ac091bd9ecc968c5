"""Which limit holds for a client: quotas of a user, a client id, both, and the defaults (KIP-13, 55 and 546).

The most specific quota holds, in this order, and the clients that it holds for together share one count:

    (user, client id), (user, default client id)                    one count a user and client id
    user                                                            one count a user
    (default user, client id), (default user, default client id)    one count a user and client id
    default user                                                    one count a user
    client id, default client id                                    one count a client id

A request without a client id has the empty one. Default quotas hold for it too; in Apache Kafka they don't,
and a client escapes its limit by leaving the client id out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

EntityParts: TypeAlias = tuple[tuple[str, str | None], ...]
"""An entity as the metadata has it: pairs of type and name; the name None is the default of the type."""


class Unnamed(enum.Enum):
    """The two ways in which a quota's entity has no name of a type."""

    DEFAULT = enum.auto()
    """It holds where there is no quota of the name itself."""
    ABSENT = enum.auto()
    """It is not about this type at all."""


class ClientEntity(NamedTuple):
    """The clients that a quota holds for."""

    user: str | Unnamed
    client_id: str | Unnamed


class CountKey(NamedTuple):
    """The clients that are counted together: of a user, of a client id, or of both. None: of all."""

    user: str | None
    client_id: str | None


class ClientLimit(NamedTuple):
    """The limit that holds for a client, and the count that it holds for."""

    key: CountKey
    limit: float


class ClientLimits:
    """The limits of one kind of quota, by the clients that they hold for. Never changed once it is made."""

    __slots__ = ("_limits",)

    def __init__(self, limits: Mapping[ClientEntity, float]) -> None:
        self._limits = dict(limits)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientLimits) and self._limits == other._limits

    __hash__ = None  # type: ignore[assignment]

    def find(self, user: str, client_id: str) -> ClientLimit | None:
        """The limit for a client of this user and client id, or None."""
        limits = self._limits
        for entity in _by_precedence(user, client_id):
            limit = limits.get(entity)
            if limit is not None:
                return ClientLimit(
                    CountKey(
                        None if entity.user is Unnamed.ABSENT else user,
                        None if entity.client_id is Unnamed.ABSENT else client_id,
                    ),
                    limit,
                )
        return None

    def limit_of(self, key: CountKey) -> float | None:
        """The limit of a count by its own key, also if a more specific one holds for its clients now."""
        user = Unnamed.ABSENT if key.user is None else key.user
        client_id = Unnamed.ABSENT if key.client_id is None else key.client_id
        for entity in (
            ClientEntity(user, client_id),
            ClientEntity(user, _default(client_id)),
            ClientEntity(_default(user), client_id),
            ClientEntity(_default(user), _default(client_id)),
        ):
            if entity in self._limits:
                return self._limits[entity]
        return None


def _default(name: str | Unnamed) -> Unnamed:
    return Unnamed.ABSENT if name is Unnamed.ABSENT else Unnamed.DEFAULT


NO_LIMITS: Final = ClientLimits({})


def client_limits(quotas: Mapping[EntityParts, Mapping[str, float]], key: str) -> ClientLimits:
    """The limits of one key (`producer_byte_rate` …) among the quotas of the metadata."""
    return ClientLimits(
        {
            entity: values[key]
            for parts, values in quotas.items()
            if key in values and (entity := _client_entity(parts)) is not None
        }
    )


def ip_limits(quotas: Mapping[EntityParts, Mapping[str, float]]) -> Iterator[tuple[str | None, float]]:
    """The connection rates of addresses and host names; None is the default of all addresses."""
    for parts, values in quotas.items():
        if len(parts) == 1 and parts[0][0] == IP and CONNECTION_CREATION_RATE in values:
            yield parts[0][1], values[CONNECTION_CREATION_RATE]


def _client_entity(parts: Iterable[tuple[str, str | None]]) -> ClientEntity | None:
    names: dict[str, str | Unnamed] = {
        kind: Unnamed.DEFAULT if name is None else name for kind, name in parts
    }
    if not names or not names.keys() <= {USER, CLIENT_ID}:
        return None
    return ClientEntity(names.get(USER, Unnamed.ABSENT), names.get(CLIENT_ID, Unnamed.ABSENT))


def _by_precedence(user: str, client_id: str) -> tuple[ClientEntity, ...]:
    return (
        ClientEntity(user, client_id),
        ClientEntity(user, Unnamed.DEFAULT),
        ClientEntity(user, Unnamed.ABSENT),
        ClientEntity(Unnamed.DEFAULT, client_id),
        ClientEntity(Unnamed.DEFAULT, Unnamed.DEFAULT),
        ClientEntity(Unnamed.DEFAULT, Unnamed.ABSENT),
        ClientEntity(Unnamed.ABSENT, client_id),
        ClientEntity(Unnamed.ABSENT, Unnamed.DEFAULT),
    )
