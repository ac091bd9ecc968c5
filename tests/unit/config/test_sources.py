"""Settings from files, the environment and command lines: what is read, which place wins, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ottla.config import sources
from ottla.config.errors import ConfigError, UsageError
from ottla.config.sources import (
    Layer,
    Origin,
    from_environment,
    from_file,
    from_mapping,
    from_words,
    layered,
    texts,
)

NAMES = st.text("abc.", min_size=1, max_size=3)
LAYERS = st.sampled_from(Layer)


def test_a_file_gives_each_value_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    file.write_text("a=1\n\nb : 2 \na = 3\n")

    given = from_file(file)

    assert texts(given) == {"a": "3", "b": "2 "}
    assert str(given["a"].origin) == f"{file}:4: "
    assert given["b"].origin == Origin(Layer.FILE, f"{file}:3")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a=\\u12", r"x\.properties:1: \\u must be followed"),
        (b"\xff\xfe", r"x\.properties: it is not a text in UTF-8"),
        (None, r"x\.properties: can't read it: No such file"),
        (b"a=1\n" * 100, r"x\.properties: larger than 100 bytes"),
    ],
)
def test_a_file_that_can_t_be_read_is_named(
    content: bytes | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 100)
    file = tmp_path / "x.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        from_file(file)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't read it: Is a directory"):
        from_file(tmp_path)


def test_words_are_read_like_lines_of_a_file() -> None:
    """Space around the separator goes, space at the end may belong to a password."""
    given = from_words(["a = 1 ", "b=x=y", "c=", "a=2"])

    assert texts(given) == {"a": "2", "b": "x=y", "c": ""}
    assert texts(from_words(["p= secret "])) == {"p": "secret "}
    assert str(given["a"].origin) == "--set "
    assert str(from_words(["a=1"], "--spark")["a"].origin) == "--spark "


@pytest.mark.parametrize("word", ["a", "=x", " = x", ""])
def test_a_word_without_name_or_separator_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="write it as key=value"):
        from_words([word])


def test_variables_give_settings_by_their_prefix() -> None:
    environ = {
        "OTTLA_BROKER_NUM_PARTITIONS": "3",
        "OTTLA_BROKER_LISTENER_NAME_A_SCRAM___SHA___256_SASL_JAAS_CONFIG": "x",
        "OTTLA_BROKER_ONE__WORD": "y",
        "OTTLA_BROKER_": "no name",
        "OTTLA_REST_ID": "another program's",
        "PATH": "/bin",
    }

    given = from_environment(environ, "OTTLA_BROKER_")

    assert texts(given) == {
        "num.partitions": "3",
        "listener.name.a.scram-sha-256.sasl.jaas.config": "x",
        "one_word": "y",
    }
    assert str(given["num.partitions"].origin) == "OTTLA_BROKER_NUM_PARTITIONS: "


def test_the_command_wins_over_the_environment_over_the_file_over_defaults() -> None:
    places = [
        from_mapping(dict.fromkeys("abcd"[: layer + 1], layer.name), layer, "x") for layer in reversed(Layer)
    ]

    assert texts(layered(*places)) == {"a": "COMMAND", "b": "COMMAND", "c": "COMMAND", "d": "COMMAND"}
    assert texts(layered(*places[1:])) == {"a": "ENVIRONMENT", "b": "ENVIRONMENT", "c": "ENVIRONMENT"}
    assert texts(layered(*places[2:])) == {"a": "FILE", "b": "FILE"}


@drawn(st.lists(st.tuples(LAYERS, st.dictionaries(NAMES, st.text(max_size=2), max_size=4)), max_size=6))
def test_each_name_has_the_last_value_of_its_highest_layer(
    places: list[tuple[Layer, dict[str, str]]],
) -> None:
    found = layered(*(from_mapping(values, layer) for layer, values in places))

    for name in {name for _, values in places for name in values}:
        highest = max(layer for layer, values in places if name in values)
        last = [values[name] for layer, values in places if layer is highest and name in values][-1]
        assert (found[name].text, found[name].origin) == (last, Origin(highest))
    assert all(any(name in values for _, values in places) for name in found)


def test_a_given_text_is_not_printed() -> None:
    assert "hunter2" not in repr(from_words(["sasl.password=hunter2"]))
