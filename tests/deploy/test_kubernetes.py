"""The Kubernetes manifests: each file, and what kustomize makes of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml
from tests.deploy.files import DEPLOY, KUBERNETES, blocks, document, documents
from tests.engines import ROOT

import palanca

KUSTOMIZATIONS = sorted(KUBERNETES.rglob("kustomization.yaml"))
OPERATOR = {"ServiceMonitor"}
"""Kinds of the Prometheus operator; no schema of them is at hand."""

SETTINGS = {"palanca.yaml"}

KEYS = {
    "apiVersion", "kind", "namespace", "labels", "resources", "components", "patches", "configMapGenerator", "images",
}  # fmt: skip
"""Keys of a kustomization that are used here."""

APPLIED = {"": "Recreate", "single": "Recreate", "replicas": "RollingUpdate"}
"""Folders that are applied, and how their Deployment is rolled."""

needs_kubectl = pytest.mark.deployment_tools


def objects() -> list[Path]:
    """Every manifest of a whole object; a patch is none."""
    patches = {
        kustomization.parent / patch["path"]
        for kustomization in KUSTOMIZATIONS
        for patch in document(kustomization).get("patches", [])
    }
    return [
        path
        for path in sorted(KUBERNETES.rglob("*.yaml"))
        if path.name not in {"kustomization.yaml", *SETTINGS} and path not in patches
    ]


def rendered(folder: str | Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Objects that kustomize makes of a folder, by kind and name."""
    done = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / folder)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    made = [one for one in yaml.safe_load_all(done.stdout) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in made}


def pod(deployment: Mapping[str, Any]) -> Any:  # noqa: ANN401  YAML
    return deployment["spec"]["template"]["spec"]


def check(made: Mapping[str, Any]) -> None:
    if made["kind"] not in OPERATOR:
        kubernetes_validate.validate(dict(made), kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("path", objects(), ids=lambda path: str(path.relative_to(KUBERNETES)))
def test_schema(path: Path) -> None:
    for made in documents(path):
        check(made)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: path.parent.name)
def test_kustomization(path: Path) -> None:
    """What it names is there, and what is there is named."""
    made = document(path)
    assert set(made) <= KEYS
    assert (made["apiVersion"], made["kind"]) in {
        ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
        ("kustomize.config.k8s.io/v1alpha1", "Component"),
    }
    named = {*made.get("resources", []), *(patch["path"] for patch in made.get("patches", []))}
    named |= {file for generator in made.get("configMapGenerator", []) for file in generator["files"]}
    for name in [*named, *made.get("components", [])]:
        place = path.parent / name
        assert place.is_file() or (place / "kustomization.yaml").is_file(), place
    assert {file.name for file in path.parent.glob("*.y*ml")} - {"kustomization.yaml"} <= named


def test_every_folder_is_used() -> None:
    used = {KUBERNETES / folder for folder in APPLIED}
    for path in KUSTOMIZATIONS:
        made = document(path)
        used |= {(path.parent / name).resolve() for name in [*made.get("resources", []), *made.get("components", [])]}
    assert {path.parent for path in KUSTOMIZATIONS} <= used


def test_image_is_that_of_this_version() -> None:
    (image,) = document(KUBERNETES / "base" / "kustomization.yaml")["images"]
    assert image == {"name": "palanca", "newTag": palanca.__version__}


def test_service_monitor_fits_the_service() -> None:
    monitor = document(KUBERNETES / "prometheus-operator" / "service-monitor.yaml")
    service = document(KUBERNETES / "base" / "service.yaml")
    assert (monitor["apiVersion"], monitor["kind"]) == ("monitoring.coreos.com/v1", "ServiceMonitor")
    assert set(monitor["spec"]) == {"selector", "endpoints"}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert set(endpoint) == {"port", "path", "interval", "scrapeTimeout"}
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert endpoint["path"] == "/metrics"


def test_pod_is_locked_down() -> None:
    """As the Pod Security Standard `restricted` asks, which the namespace enforces, and a read-only root on top."""
    spec = pod(document(KUBERNETES / "base" / "deployment.yaml"))
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    namespace = document(KUBERNETES / "base" / "namespace.yaml")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_probes_and_resources() -> None:
    (container,) = pod(document(KUBERNETES / "base" / "deployment.yaml"))["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert set(container["resources"]) == {"requests", "limits"}


def test_settings_name_mounted_files() -> None:
    settings = document(KUBERNETES / "base" / "palanca.yaml")
    (container,) = pod(document(KUBERNETES / "base" / "deployment.yaml"))["containers"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    for token in settings["auth"]["tokens"]:
        assert Path(token["token_file"]).parent == Path(places["tokens"])
    assert places["settings"] == "/etc/palanca"


# --- what kustomize makes ---------------------------------------------------------------------------


@needs_kubectl
@pytest.mark.parametrize("folder", APPLIED)
def test_rendered(folder: str) -> None:
    made = rendered(folder)
    for one in made.values():
        check(one)
        if one["kind"] != "Namespace":
            assert one["metadata"]["namespace"] == "palanca"
    deployment = made["Deployment", "palanca"]
    assert deployment["spec"]["strategy"]["type"] == APPLIED[folder]
    spec = pod(deployment)
    (container,) = spec["containers"]
    assert container["image"] == f"palanca:{palanca.__version__}"
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    settings = next(volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume)
    assert ("ConfigMap", settings) in made


@needs_kubectl
def test_single_has_its_history_on_a_volume() -> None:
    made = rendered("single")
    claims = [one["persistentVolumeClaim"]["claimName"] for one in _volumes(made) if "persistentVolumeClaim" in one]
    assert claims == ["palanca"]
    assert made["Deployment", "palanca"]["spec"]["replicas"] == 1
    assert made["PersistentVolumeClaim", "palanca"]["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert not OPERATOR & {kind for kind, _ in made}


@needs_kubectl
def test_replicas_share_a_database() -> None:
    made = rendered("replicas")
    deployment = made["Deployment", "palanca"]
    (container,) = pod(deployment)["containers"]
    (variable,) = container["env"]
    assert variable["name"] == "PALANCA_HISTORY__DATABASE_FILE"
    assert Path(variable["value"]).parent in [Path(mount["mountPath"]) for mount in container["volumeMounts"]]
    assert not [volume for volume in _volumes(made) if "persistentVolumeClaim" in volume]
    budget = made["PodDisruptionBudget", "palanca"]["spec"]
    assert 0 < budget["minAvailable"] < deployment["spec"]["replicas"]
    assert budget["selector"] == deployment["spec"]["selector"]
    assert {one["topologyKey"] for one in pod(deployment)["topologySpreadConstraints"]} == {
        "kubernetes.io/hostname", "topology.kubernetes.io/zone",
    }  # fmt: skip
    assert OPERATOR <= {kind for kind, _ in made}


@needs_kubectl
def test_kustomization_of_the_docs(tmp_path: Path) -> None:
    """What docs/deploy/kubernetes.md shows changes the image and the settings."""
    (shown,) = (text for _, text in blocks(ROOT / "docs" / "deploy" / "kubernetes.md", "yaml"))
    shutil.copytree(DEPLOY, tmp_path / "palanca" / "deploy", ignore=shutil.ignore_patterns("secrets"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(shown)
    (folder / "palanca.yaml").write_text("interval: 15s\n")
    made = rendered(folder)
    (container,) = pod(made["Deployment", "palanca"])["containers"]
    assert container["image"] == f"registry.example.com/palanca:{palanca.__version__}"
    (settings,) = (one for (kind, _), one in made.items() if kind == "ConfigMap")
    assert settings["data"] == {"palanca.yaml": "interval: 15s\n"}
    assert settings["metadata"]["name"] in [one.get("configMap", {}).get("name") for one in _volumes(made)]


def _volumes(made: Mapping[tuple[str, str], Any]) -> Iterator[Any]:
    yield from pod(made["Deployment", "palanca"])["volumes"]
