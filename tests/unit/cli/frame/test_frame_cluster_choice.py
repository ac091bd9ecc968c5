"""Which cluster a command asks: the first place that names one gives it whole; profiles as files."""

from __future__ import annotations

import itertools
import json
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.cli.frame.cluster_choice import access_of
from ottla.cli.frame.profiles import Profiles
from ottla.cli.main import main
from ottla.client.access import ClusterAccess
from ottla.config.errors import UsageError, UserError
from ottla.config.java_properties import parse_properties, properties_text
from ottla.config.sources import texts


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own; the directory of ottla's files in it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("OTTLA_BOOTSTRAP", "OTTLA_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "ottla"


def profile(name: str, **properties: str) -> None:
    Profiles().write(name, {"bootstrap.servers": f"{name}:1", "client.id": name, **properties})


def test_the_first_place_that_names_a_cluster_gives_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("named", "variable", "current"):
        profile(name)
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")
    places = [
        ("--bootstrap", "line:1", {}),
        ("--profile", "named:1", {"client.id": "named"}),
        ("--command-config", "file:1", {}),
        ("OTTLA_BOOTSTRAP", "environment:1", {}),
        ("OTTLA_PROFILE", "variable:1", {"client.id": "variable"}),
        ("current", "current:1", {"client.id": "current"}),
    ]
    for present in itertools.product((True, False), repeat=len(places)):
        given = {place for (place, *_), there in zip(places, present, strict=True) if there}
        options = {
            "bootstrap": "line:1" if "--bootstrap" in given else None,
            "profile": "named" if "--profile" in given else None,
            "command_config": file if "--command-config" in given else None,
            "set_words": (),
        }
        for name, value in (("OTTLA_BOOTSTRAP", "environment:1"), ("OTTLA_PROFILE", "variable")):
            monkeypatch.setenv(name, value if name in given else "")
        Profiles().use("current" if "current" in given else None)
        access = access_of(options)
        # then: of the places, the first; servers and profile of one place go together
        for group in (
            ("--bootstrap", "--command-config", "--profile"),
            ("OTTLA_BOOTSTRAP", "OTTLA_PROFILE"),
            ("current",),
        ):
            if found := [each for each in group if each in given]:
                bootstraps = {place: bootstrap for place, bootstrap, _ in places}
                expected = bootstraps[found[0]]
                settings_of = [properties for place, _, properties in places if place in found]
                assert (access.bootstrap, dict(access.properties)) == (
                    expected,
                    next(filter(None, settings_of), {}),
                ), given
                break
        else:
            assert access == ClusterAccess("127.0.0.1:9092", {})


def test_settings_of_the_line_win_over_the_profiles(tmp_path: Path) -> None:
    profile("a", **{"sasl.username": "p", "sasl.password": "p", "ssl.ca.location": "p"})
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=f\nsasl.password=f\n")
    asked = {"profile": "a", "command_config": file, "set_words": ("sasl.username=s",)}
    assert access_of(asked) == ClusterAccess(
        "a:1",
        {"client.id": "a", "sasl.username": "s", "sasl.password": "f", "ssl.ca.location": "p"},
    )


def test_a_profile_that_is_not_there_is_told_with_similar_ones() -> None:
    with pytest.raises(UserError, match=r"there is no profile a: `ottla profile add` makes one"):
        access_of({"profile": "a"})
    profile("production")
    with pytest.raises(UserError, match=r"there is no profile producton; did you mean production\?"):
        access_of({"profile": "producton"})
    with pytest.raises(UsageError, match=r"a profile can't be called '\.\./a'"):
        access_of({"profile": "../a"})


def run(*words: str) -> int:
    return main(["profile", *words])


def test_the_life_of_a_profile(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    assert "there is no profile" in capsys.readouterr().err
    assert run("add", "one", "--bootstrap", "one:1", "--set", "sasl.password= se=cret ", "--use") == 0
    assert run("add", "two", "--bootstrap", "two:1,two:2", "--set", "security.protocol=SSL") == 0
    assert capsys.readouterr().out == "profile one is added and current\nprofile two is added\n"
    # listed
    assert run("list", "--json") == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert listed == [
        {"name": "one", "current": True, "bootstrap": "one:1", "security": "PLAINTEXT"},
        {"name": "two", "current": False, "bootstrap": "two:1,two:2", "security": "SSL"},
    ]
    assert run("list", "-q") == 0
    assert capsys.readouterr().out == "one\ntwo\n"
    # used
    assert access_of({}) == ClusterAccess("one:1", {"sasl.password": "se=cret "})
    assert run("use", "two") == 0
    assert access_of({}).bootstrap == "two:1,two:2"
    # changed
    assert run("set", "two", "--set", "client.id=me", "--unset", "security.protocol") == 0
    assert texts(Profiles().read("two")) == {"bootstrap.servers": "two:1,two:2", "client.id": "me"}
    assert run("set", "two", "--unset", "sasl.username") == 1
    assert run("add", "two", "--bootstrap", "x:1") == 1
    assert "profile two exists already; `ottla profile set two` changes it" in capsys.readouterr().err
    # removed, and not current any more
    assert run("remove", "two", "--yes") == 0
    assert Profiles().names() == ["one"] and Profiles().current() is None
    assert access_of({}).bootstrap == "127.0.0.1:9092"
    assert run("use", "two") == 1
    assert run("use", "one") == run("use", "--none") == 0
    assert Profiles().current() is None


def test_a_profile_can_be_read_by_its_owner_alone_and_shows_no_secret(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = ("sasl.password", "ssl.key.pem", "ssl.key.password", "sasl.jaas.config", "ssl.keystore.key")
    words = [word for name in secrets for word in ("--set", f"{name}=S3CR3T")]
    assert run("add", "a", "--bootstrap", "a:1", *words[:8], "--use") in (0, 1)
    Profiles().write("a", {"bootstrap.servers": "a:1", **dict.fromkeys(secrets, "S3CR3T")})
    Profiles().use("a")
    for form in ([], ["--json"], ["-q"]):
        assert run("show", *form) == run("list", *form) == 0
    assert run("set", "a", "--set", "client.id=me", "--json") in (0, 1)
    out, err = capsys.readouterr()
    assert "S3CR3T" not in out + err and "[hidden]" in out
    assert stat.S_IMODE((home / "profiles" / "a.properties").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "profiles").stat().st_mode) == 0o700
    assert [each.name for each in (home / "profiles").iterdir()] == ["a.properties"]


def test_a_write_that_fails_leaves_the_old_profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile("a")
    before = (home / "profiles" / "a.properties").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device", "a.properties")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="can't write it: No space left on device"):
        profile("a", **{"client.rack": "r"})
    assert (home / "profiles" / "a.properties").read_bytes() == before
    assert len(list((home / "profiles").iterdir())) == 1


def test_a_profile_without_servers_or_with_settings_that_can_t_be_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("add", "a") == 2
    assert run("add", "a", "--bootstrap", "x:y") == 1
    assert run("add", "a", "--bootstrap", "x:1", "--set", "linger.ms=5") == 1
    assert run("add", "-a", "--bootstrap", "x:1") == 2
    assert run("add", "a/b", "--bootstrap", "x:1") == 2
    assert len(capsys.readouterr().err.splitlines()) == 5
    assert Profiles().names() == []


def test_a_current_profile_that_is_gone_is_told(home: Path) -> None:
    profile("a")
    Profiles().use("a")
    (home / "profiles" / "a.properties").unlink()
    with pytest.raises(UserError, match="there is no profile a"):
        access_of({})
    assert access_of({"bootstrap": "b:1"}).bootstrap == "b:1"


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"), max_size=40)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_properties_that_are_written_are_read_as_they_were(properties: dict[str, str]) -> None:
    read = parse_properties(properties_text(properties))
    assert {name: each.value for name, each in read.items()} == properties
