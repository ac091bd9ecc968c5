"""The command in a real terminal: completion by real shells, Ctrl-C, questions, narrow screens."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.clients.confluent import create_topic
from support.servers.cluster import Cluster
from support.terminal.tmux import terminal

pytestmark = pytest.mark.system("tmux")
PROMPT = "ready> "
SHELLS = {
    "bash": f"bash --norc --noprofile -c 'exec env PS1=\"{PROMPT}\" bash --norc --noprofile -i'",
    "zsh": f"env PS1='{PROMPT}' zsh -f -i",
}


def typed_name(cluster: Cluster, name: str) -> str:
    """A topic whose name no other begins as, all but its end."""
    create_topic(cluster.bootstrap, name)
    return name[:-3]


@pytest.mark.parametrize("shell", ["bash", pytest.param("zsh", marks=pytest.mark.system("zsh"))])
def test_a_shell_completes_commands_and_live_topics(
    shell: str, cluster: Cluster, unique_name: str, tmp_path: Path
) -> None:
    topic = f"{shell}-{unique_name}"
    begun = typed_name(cluster, topic)
    with terminal(tmp_path, SHELLS[shell], 200, 40, {"OTTLA_BOOTSTRAP": cluster.bootstrap}) as window:
        window.wait_for(PROMPT.strip())
        if shell == "zsh":
            window.type("autoload -U compinit; compinit -D")
            window.press("Enter")
        window.type(f'eval "$(ottla completion {shell})"; echo "loa""ded"')
        window.press("Enter")
        window.wait_for("loaded")
        # when
        window.type("ottla partit")
        window.press("Tab")
        window.wait_for("ottla partition")
        window.type(f"elect preferred --topic {begun}")
        window.press("Tab")
        # then
        window.wait_for(f"--topic {topic}")
        window.press("Enter")
        screen = window.wait_for("ELECTION_NOT_NEEDED")
    assert not [line for line in screen if "Traceback" in line]


@pytest.mark.system("fish")
def test_fish_completes_commands_and_live_topics(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    begun = typed_name(cluster, unique_name)
    (tmp_path / "ottla").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ottla "$@"\n')
    (tmp_path / "ottla").chmod(0o755)

    def completed(line: str) -> list[str]:
        run = subprocess.run(
            ["fish", "--no-config", "-c", f"ottla completion fish | source; complete -C {shlex.quote(line)}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env={
                **os.environ,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "XDG_CONFIG_HOME": str(tmp_path),
                "OTTLA_BOOTSTRAP": cluster.bootstrap,
            },
        )
        return [found.split("\t")[0] for found in run.stdout.splitlines()]

    assert completed("ottla partit") == ["partition"]
    assert "preferred" in completed("ottla partition elect ")
    assert completed(f"ottla partition elect preferred --topic {begun}") == [unique_name]


def test_a_cluster_that_does_not_answer_completes_nothing_and_says_nothing(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        run = subprocess.run(
            [sys.executable, "-m", "ottla"],
            capture_output=True,
            text=True,
            timeout=60,
            env={
                **os.environ,
                "XDG_CONFIG_HOME": str(tmp_path),
                "_OTTLA_COMPLETE": "bash_complete",
                "COMP_WORDS": f"ottla partition elect --bootstrap {bootstrap} --topic o",
                "COMP_CWORD": "6",
            },
        )
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "", "")


def test_ctrl_c_ends_a_command_without_a_traceback(tmp_path: Path) -> None:
    with socket.socket() as silent, terminal(tmp_path, SHELLS["bash"]) as window:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(30)
        window.wait_for(PROMPT.strip())
        window.type(f"ottla quorum status --bootstrap 127.0.0.1:{silent.getsockname()[1]}; echo code=$?")
        window.press("Enter")
        connection, _ = silent.accept()
        with connection:
            connection.recv(4)
            window.press("C-c")
            screen = window.wait_for("code=130")
    assert screen[-3:-1] == ["^C", "code=130"], screen


def test_a_question_is_answered_on_the_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, SHELLS["bash"]) as window:
        window.wait_for(PROMPT.strip())
        window.type(
            "for p in a b; do ottla profile add $p --bootstrap x:1; done; "
            "ottla profile remove a; echo code=$?"
        )
        window.press("Enter")
        window.wait_for("remove profile a? [y/N]")
        window.press("Enter")
        screen = window.wait_for("code=1")
        assert "ottla profile remove: nothing was done" in screen
        window.type("ottla profile remove b; ottla profile list -q; echo code=$?")
        window.press("Enter")
        window.wait_for("remove profile b? [y/N]")
        window.type("y")
        window.press("Enter")
        screen = window.wait_for("code=0")
        assert "remove profile b? [y/N] y" in screen
        assert screen[screen.index("profile b is removed") :][1] == "a"


@pytest.mark.parametrize("columns", [40, 80])
def test_tables_fit_the_terminal(columns: int, cluster: Cluster, tmp_path: Path) -> None:

    with terminal(tmp_path, SHELLS["bash"], columns, 60, {"OTTLA_BOOTSTRAP": cluster.bootstrap}) as window:
        window.wait_for(PROMPT.strip())
        window.type("clear; ottla quorum status; echo 'do''ne'")
        window.press("Enter")
        screen = window.wait_for("done")
        text = "\n".join(screen)
        assert "leader" in text and "log_end_offset" in text and "directory_id" in text
        if columns == 80:
            (head,) = (line for line in screen if line.startswith("node"))
            assert head.split() == ["node", "role", "log_end_offset", "lag", "directory_id", "address"]
        else:
            assert [line.split()[0] for line in screen if line.startswith(("node", "role", "lag"))] == [
                *("node", "role", "lag")
            ]
