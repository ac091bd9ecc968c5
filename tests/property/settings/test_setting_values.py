"""Any text is a value of a setting or a clear refusal, and values read back as they are shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.config.setting import HIDDEN, ConfigType, InvalidValue, Setting
from ottla.core.settings.broker_settings import BROKER_SETTINGS
from ottla.core.settings.group_settings import GROUP_SETTINGS
from ottla.core.settings.topic_settings import TOPIC_SETTINGS

SETTINGS = st.sampled_from([*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values(), *GROUP_SETTINGS.values()])
TEXTS = st.one_of(
    st.text(max_size=30),
    st.integers().map(str),
    st.floats().map(repr),
    st.sampled_from(["true", "false", "compact,delete", "1,2", "-1", "0:1,2:3", "²", "٣"]),
)


@given(SETTINGS, TEXTS)
def test_a_text_is_a_value_or_refused(setting: Setting[object], text: str) -> None:
    try:
        value = setting.parse(text)
    except InvalidValue as refused:
        assert setting.name in str(refused)
        return
    shown = setting.format(value)
    assert shown is not None
    if setting.sensitive:
        assert shown == str(value) == repr(value) == HIDDEN
    else:
        assert setting.parse(shown) == value


@given(st.sampled_from([s for s in BROKER_SETTINGS.values() if s.type is ConfigType.LONG]), st.integers())
def test_numbers_keep_to_their_type(setting: Setting[int], number: int) -> None:
    try:
        value = setting.parse(str(number))
    except InvalidValue:
        return
    assert value == number
    assert -(2**63) <= value < 2**63
