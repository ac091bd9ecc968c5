"""The Schema Registry for converters: under which subject a schema is written, and which one an id names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.client.errors import ClientOptionError
from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.rules import read_obstacle, write_obstacle
from ottla.client.registry.shared_clients import client_of
from ottla.client.registry.wire import RegistryAccess, RegistryRefusal, RegistryUnreachable
from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, LOW, MEDIUM, Setting, boolean, password, string, string_list
from ottla.config.settings import Settings
from ottla.config.validators import OneOf
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.api import RetriableError
from ottla.connect.plugins.required import Required, require
from ottla.schemas import framing
from ottla.schemas.model import SchemaType

VERSION: Final = "8.0.0"
"""The version of Confluent's platform whose converters these are like."""
_SUBJECTS: Final = "io.confluent.kafka.serializers.subject"
_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")

URL: Final = string_list.optional(
    "schema.registry.url", "The addresses of the Schema Registry.", Required(), importance=HIGH
)
AUTO_REGISTER: Final = boolean(
    "auto.register.schemas", True, "Whether schemas that are not registered yet are.", importance=MEDIUM
)
USE_LATEST: Final = boolean(
    "use.latest.version",
    False,
    "Whether values are written with the subject's latest schema; only with auto.register.schemas=false.",
    importance=LOW,
)
_STRATEGY_CHECK: Final = OneOf(tuple(f"{_SUBJECTS}.{each}" for each in _STRATEGIES))
KEY_STRATEGY: Final = string(
    "key.subject.name.strategy",
    f"{_SUBJECTS}.TopicNameStrategy",
    "How the subject of a key's schema is named.",
    _STRATEGY_CHECK,
    importance=MEDIUM,
)
VALUE_STRATEGY: Final = string(
    "value.subject.name.strategy",
    f"{_SUBJECTS}.TopicNameStrategy",
    "How the subject of a value's schema is named.",
    _STRATEGY_CHECK,
    importance=MEDIUM,
)
CREDENTIALS_SOURCE: Final = string(
    "basic.auth.credentials.source", "URL", "Where user and password come from: URL or USER_INFO."
)
USER_INFO: Final = password.optional("basic.auth.user.info", "user:password, with USER_INFO.")
BEARER_TOKEN: Final = password.optional("bearer.auth.token", "The token of requests.")
CA_LOCATION: Final = string.optional("ssl.ca.location", "The file with the certificates that are trusted.")
REGISTRY_SETTINGS: Final[tuple[Setting[Any], ...]] = (
    URL,
    AUTO_REGISTER,
    USE_LATEST,
    KEY_STRATEGY,
    VALUE_STRATEGY,
    CREDENTIALS_SOURCE,
    USER_INFO,
    BEARER_TOKEN,
    CA_LOCATION,
)


class RegistrySchemas:
    """One converter's view of a registry. One thread uses it."""

    def __init__(self, settings: Settings, schema_type: SchemaType, is_key: bool) -> None:
        """Raises ConfigError."""
        self._type = schema_type
        self._is_key = is_key
        self._registers = settings[AUTO_REGISTER]
        self._uses_latest = settings[USE_LATEST] and not self._registers
        self._strategy = settings[KEY_STRATEGY if is_key else VALUE_STRATEGY].rpartition(".")[2]
        self._client = client_of(_access(settings))

    def to_write(self, topic: str, text: str, name: str | None) -> RegisteredSchema:
        """The registered schema to write a schema's values with. Raises DataError, RetriableError."""
        subject = self._subject(topic, name)
        if self._uses_latest:
            found = self._asked(lambda: self._client.latest(subject), f"the latest schema of {subject}")
        elif self._registers:
            found = self._asked(
                lambda: self._client.register(subject, self._type, text), f"a schema of {subject}"
            )
        else:
            found = self._asked(
                lambda: self._client.registered(subject, self._type, text), f"a schema of {subject}"
            )
        obstacle = write_obstacle(found.rules)
        if obstacle is not None:
            raise DataError(f"schema {found.id}: {obstacle}")
        return found

    def to_read(self, data: bytes) -> tuple[RegisteredSchema, memoryview]:
        """The schema that a payload names, and the bytes behind its frame.

        Raises DataError, RetriableError.
        """
        try:
            schema_id, body = framing.split_frame(data)
        except framing.UnframedPayload as problem:
            raise DataError(f"Unknown magic byte! ({problem})") from None
        found = self._asked(lambda: self._client.by_id(schema_id), f"schema {schema_id}")
        if found.parsed.schema_type is not self._type:
            raise DataError(f"schema {schema_id} is of the type {found.parsed.schema_type}, not {self._type}")
        obstacle = read_obstacle(found.rules)
        if obstacle is not None:
            raise DataError(f"schema {schema_id}: {obstacle}")
        return found, body

    def _subject(self, topic: str, name: str | None) -> str:
        if self._strategy == "TopicNameStrategy":
            return f"{topic}-{'key' if self._is_key else 'value'}"
        if name is None:
            raise DataError(
                f"{self._strategy} names subjects by schemas that have a name, and this one has none"
            )
        return name if self._strategy == "RecordNameStrategy" else f"{topic}-{name}"

    def _asked(self, ask: Callable[[], RegisteredSchema], wanted: str) -> RegisteredSchema:
        try:
            return ask()
        except RegistryUnreachable as problem:
            raise RetriableError(f"the Schema Registry does not answer for {wanted}: {problem}") from problem
        except RegistryRefusal as refusal:
            if refusal.is_passing:
                raise RetriableError(
                    f"the Schema Registry fails for {wanted}: {refusal.message}"
                ) from refusal
            raise DataError(
                f"the Schema Registry refuses {wanted}: {refusal.message} (error code {refusal.error_code})"
            ) from None


def _access(settings: Settings) -> RegistryAccess:
    user_info, token = settings[USER_INFO], settings[BEARER_TOKEN]
    with_user = settings[CREDENTIALS_SOURCE].upper() == "USER_INFO" or user_info is not None
    urls = require(settings, URL)
    try:
        return RegistryAccess(
            ",".join(urls),
            user_info.value if with_user and user_info is not None else None,
            None if token is None else token.value,
            settings[CA_LOCATION],
        )
    except ClientOptionError as problem:
        raise ConfigError(f"Invalid value for configuration {URL.name}: {problem}") from None
