"""Renders the Helm chart into tests/packages/rendered, which the tests read: `python tools/render_chart.py`.

Helm is taken from the path, or else built by Go from its module, once, into the user's cache. The first line
of each file has the digest of the chart that it was made from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "packaging" / "helm" / "ottla"
RENDERED = ROOT / "tests" / "packages" / "rendered"
HELM_MODULE = "helm.sh/helm/v3/cmd/helm@v3.22.0"
HELM_CACHE = Path.home() / ".cache" / "ottla" / "helm"
KUBERNETES = "1.33"
#: The values of each rendering, by its name.
CASES = {
    "three-brokers": [],
    "five-brokers": [
        *("--set", "replicas=5", "--set-json", 'config={"log.retention.bytes": 1073741824, "a.ratio": 0.5}'),
        *("--set", "persistence.storageClassName=fast", "--set", "clusterId=b3R0bGEtY29uZm9ybWFuYw"),
    ],
    "one-broker": ["--set", "replicas=1", "--set", "controllers=1", "--set", "serviceAccount.create=false"],
}


def chart_digest() -> str:
    """A digest of all files of the chart."""
    digest = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(CHART)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def helm() -> str | None:
    """The command of Helm; None if it is neither here nor can be built."""
    found = shutil.which("helm")
    if found is not None:
        return found
    built = HELM_CACHE / "helm"
    if not built.exists() and shutil.which("go") is not None:
        environment = {**os.environ, "GOBIN": str(HELM_CACHE), "GOFLAGS": "-mod=mod"}
        subprocess.run(["go", "install", HELM_MODULE], env=environment, check=False)
    return str(built) if built.exists() else None


def render(command: str, name: str) -> str:
    """A rendering, with its first line. Raises CalledProcessError."""
    words = [command, "template", "ottla", str(CHART), "--namespace", "default", "--kube-version", KUBERNETES]
    run = subprocess.run([*words, *CASES[name]], capture_output=True, text=True, check=True)
    return f"# chart {chart_digest()}\n{run.stdout}"


if __name__ == "__main__":
    chosen = helm()
    if chosen is None:
        sys.exit("helm is not on the path, and there is no Go to build it")
    RENDERED.mkdir(exist_ok=True)
    for case in CASES:
        (RENDERED / f"{case}.yaml").write_text(render(chosen, case), encoding="utf-8")
