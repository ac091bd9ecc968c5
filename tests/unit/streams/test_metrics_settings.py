"""Where an application serves its metrics, by its settings and by the command's option."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.servers.streams import _metrics_place
from ottla.config.errors import ConfigError
from ottla.metrics.settings import Address, EndpointOptions
from ottla.security.server_tls import ClientAuthentication
from ottla.streams import StreamsSettings


def served(**given: object) -> EndpointOptions | None:
    return StreamsSettings(**given).watching.metrics  # type: ignore[arg-type]


def test_metrics_are_off_unless_a_place_is_given() -> None:
    assert served() is None


def test_a_port_alone_is_one_of_this_machine_s_own() -> None:
    assert served(metrics_port=9400) == EndpointOptions(Address("127.0.0.1", 9400))
    assert [_metrics_place(given) for given in (None, "9400", "0.0.0.0:9400")] == [
        None,
        "127.0.0.1:9400",
        "0.0.0.0:9400",
    ]


def test_readers_are_those_of_the_file() -> None:
    found = served(metrics="0.0.0.0:9400", metrics_users=Path("readers"))
    assert found == EndpointOptions(Address("0.0.0.0", 9400), "readers")


def test_further_settings_are_those_of_a_file_as_a_broker_has_them(tmp_path: Path) -> None:
    file = tmp_path / "metrics.properties"
    file.write_text(
        "ottla.metrics.listen=https://0.0.0.0:9400\nottla.metrics.tokens.file=tokens\n"
        "ssl.keystore.location=of-all.pem\nlistener.name.metrics.ssl.keystore.location=own.pem\n"
        "ssl.client.authentication=REQUIRED\n"
    )
    watching = StreamsSettings(metrics_config=file, metrics_users=Path("readers")).watching
    assert watching.metrics == EndpointOptions(Address("0.0.0.0", 9400, uses_tls=True), "readers", "tokens")
    assert watching.metrics_tls is not None
    assert watching.metrics_tls.identity.location == "own.pem"
    assert watching.metrics_tls.client_authentication is ClientAuthentication.REQUIRED
    # The keywords go before the file.
    watching = StreamsSettings(metrics="127.0.0.1:1", metrics_config=file).watching
    assert watching.metrics == EndpointOptions(Address("127.0.0.1", 1), None, "tokens")
    assert watching.metrics_tls is None
    file.write_text("ottla.metrics.lisen=127.0.0.1:1\n")
    with pytest.raises(ConfigError, match=r"metrics\.properties.*ottla\.metrics\.lisen: not a setting"):
        StreamsSettings(metrics_config=file)


def test_readers_without_a_place_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"ottla\.metrics\.users\.file is given, but no"):
        served(metrics_users=Path("readers"))


def test_a_place_that_can_t_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        served(metrics="far")
