"""A topic's settings as CreateTopics answers them (KIP-525)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.core.metadata.config_layers import BrokerLayers, ConfigSource, TopicConfig
from ottla.core.metadata.topic_settings import TOPIC_SETTINGS
from ottla.protocol.messages.create_topics_response import CreatableTopicConfigs


def creatable_configs(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """Every setting of a topic with these values of its own, by name."""
    config = TopicConfig(layers, overrides)
    answers = []
    for setting in TOPIC_SETTINGS.values():
        if setting.internal and setting.name not in overrides:
            continue
        synonyms = config.synonyms(setting.name)
        answers.append(
            CreatableTopicConfigs(
                name=setting.name,
                value=setting.format(config[setting]),
                read_only=False,
                config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
                is_sensitive=setting.sensitive,
            )
        )
    return answers
