"""compose.yaml and the files that it mounts."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.files import COMPOSE, DEPLOY, compose_services, document
from tests.engines import ROOT
from tests.servers import tool

FOLDER = DEPLOY / "compose"
SERVICES = compose_services()

WITHOUT_CHECK = {
    "palanca": "its image has one",
    "otel-collector": "its image has nothing to ask with",
}


def mounts() -> Iterator[tuple[str, Path, str]]:
    """Every file or folder of the checkout that a service mounts: service, source, place in the container."""
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source, place, *_ = volume.split(":")
            if source.startswith("."):
                yield name, ROOT / source, place


def test_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stack() -> None:
    always = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert always == {"palanca", "vllm", "prometheus", "alertmanager", "grafana"}
    assert all(service["profiles"] == ["tracing"] for name, service in SERVICES.items() if name not in always)


def test_services_outside_a_profile_need_none_inside() -> None:
    for service in SERVICES.values():
        if "profiles" not in service:
            assert not service.get("depends_on")


@pytest.mark.parametrize("name", SERVICES)
def test_service(name: str) -> None:
    service: dict[str, Any] = SERVICES[name]
    if "build" not in service:
        assert re.search(r":v?\d+\.\d+|:RELEASE\.\d{4}-\d\d-\d\d", service["image"]), service["image"]
    assert all(re.match(r"127\.0\.0\.1:\d+:\d+$", port) for port in service.get("ports", []))
    assert service["restart"] == "unless-stopped"
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "deploy" in service
    checked = "test" in service.get("healthcheck", {})
    assert checked != (name in WITHOUT_CHECK), WITHOUT_CHECK.get(name, "no health check")


def test_ports_are_published_once() -> None:
    ports = [port.split(":")[1] for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == len(set(ports))


def test_palanca_is_locked_down() -> None:
    service = SERVICES["palanca"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "palanca:/var/lib/palanca" in service["volumes"]


def test_mounted_files_exist_and_are_read_only() -> None:
    for name, source, _ in mounts():
        assert source.exists(), (name, source)
    for service in SERVICES.values():
        assert all(volume.endswith(":ro") for volume in service.get("volumes", []) if volume.startswith("."))


def test_names_are_defined_and_used() -> None:
    whole = document(COMPOSE)
    used_secrets = {secret for service in SERVICES.values() for secret in service.get("secrets", [])}
    assert used_secrets == set(whole["secrets"])
    used_volumes = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if not volume.startswith(".")
    }
    assert used_volumes == set(whole["volumes"])
    needed = {other for service in SERVICES.values() for other in service.get("depends_on", {})}
    assert needed <= set(SERVICES)


def test_stores_of_langfuse_are_out_of_reach() -> None:
    assert document(COMPOSE)["networks"]["langfuse"] == {"internal": True}
    for name in ("langfuse-postgres", "langfuse-clickhouse", "langfuse-redis", "langfuse-minio"):
        assert SERVICES[name]["networks"] == ["langfuse"]
        assert "ports" not in SERVICES[name]


def test_no_secret_is_written_down() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            secret = re.search(r"PASSWORD|SECRET|TOKEN|SALT|ENCRYPTION", name)
            assert not secret or value.startswith("/run/secrets/"), name


def test_addresses_name_services() -> None:
    """Every host:port in the files is a service of the stack, by the port that it listens on."""
    files = [COMPOSE, *(path for path in FOLDER.rglob("*.y*ml") if "secrets" not in path.parts)]
    text = "\n".join(line for path in files for line in path.read_text().splitlines() if "image:" not in line)
    known = {
        "alertmanager:9093", "grafana:3000", "langfuse-clickhouse:8123", "langfuse-clickhouse:9000",
        "langfuse-minio:9000", "langfuse-web:3000", "palanca:9797", "prometheus:9090", "vllm:8000",
    }  # fmt: skip
    hosts = "|".join(sorted(SERVICES, key=len, reverse=True))
    assert {match[1] for match in re.finditer(rf"(?<![\w./-])((?:{hosts}):\d+)(?![\w.:])", text)} <= known


def test_prometheus() -> None:
    done = subprocess.run(
        [tool("promtool"), "check", "config", str(FOLDER / "prometheus" / "prometheus.yml")],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_prometheus_loads_the_exported_rules() -> None:
    (place,) = (place for _, source, place in mounts() if source == ROOT / "alerts" / "prometheus.yaml")
    (pattern,) = document(FOLDER / "prometheus" / "prometheus.yml")["rule_files"]
    assert Path(place).match(pattern)


def test_alertmanager() -> None:
    done = subprocess.run(
        [tool("amtool"), "check-config", str(FOLDER / "alertmanager" / "alertmanager.yml")],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_collector_uses_what_it_defines() -> None:
    """No program is at hand that checks a collector's configuration; this is what a typing error breaks."""
    config = document(FOLDER / "otel-collector.yaml")
    used: dict[str, set[str]] = {kind: set() for kind in ("receivers", "processors", "exporters")}
    for pipeline in config["service"]["pipelines"].values():
        assert list(pipeline["processors"]) == ["memory_limiter", "batch"]
        for kind, names in used.items():
            names.update(pipeline[kind])
    assert all(set(config[kind]) == names for kind, names in used.items())
    assert set(config["extensions"]) == set(config["service"]["extensions"])
    for exporter in config["exporters"].values():
        assert exporter.get("auth", {}).get("authenticator") in {None, *config["extensions"]}
    files = re.findall(r"\$\{file:/run/secrets/(\w+)\}", (FOLDER / "otel-collector.yaml").read_text())
    assert sorted(files) == sorted(SERVICES["otel-collector"]["secrets"])


def test_no_engine_arrives_twice() -> None:
    """What Prometheus scrapes, the collector does not write into it as well."""
    scraped = document(FOLDER / "prometheus" / "prometheus.yml")["scrape_configs"]
    written = document(FOLDER / "otel-collector.yaml")["receivers"]["prometheus"]["config"]["scrape_configs"]
    assert {job["job_name"] for job in scraped} & {job["job_name"] for job in written} == set()


def test_grafana_provisioning() -> None:
    folder = ROOT / "dashboards" / "provisioning"
    sources = document(folder / "datasources" / "palanca.yaml")["datasources"]
    assert [source["type"] for source in sources] == ["prometheus", "alertmanager", "yesoreyeram-infinity-datasource"]
    for source in sources:
        for secret in re.findall(r"\$__file\{/run/secrets/(\w+)\}", str(source.get("secureJsonData"))):
            assert secret in SERVICES["grafana"]["secrets"]
    (provider,) = document(folder / "dashboards" / "palanca.yaml")["providers"]
    places = {place: source for name, source, place in mounts() if name == "grafana"}
    assert ROOT / "dashboards" == places[provider["options"]["path"]]
    assert folder == places["/etc/grafana/provisioning"]


def test_flags_of_vllm_are_told_to_palanca() -> None:
    (entry,) = document(FOLDER / "palanca" / "palanca.yaml")["targets"]
    assert entry["serve_args"] in SERVICES["vllm"]["command"]


def test_variables_are_explained() -> None:
    named = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    explained = set(re.findall(r"^(\w+)=", (FOLDER / ".env.example").read_text(), re.MULTILINE))
    assert explained - {"COMPOSE_PROFILES"} == named


# --- secrets ----------------------------------------------------------------------------------------


def make_secrets(folder: Path) -> str:
    command = [str(FOLDER / "make-secrets"), str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_secrets_that_compose_names_are_made(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    make_secrets(folder)
    named = {Path(secret["file"]).name for secret in document(COMPOSE)["secrets"].values()}
    named |= {Path(file).name for service in SERVICES.values() for file in service.get("env_file", [])}
    assert {path.name for path in folder.iterdir()} == named


def test_secrets_can_be_read_by_the_services_only(tmp_path: Path) -> None:
    """Through the mount by any user of a container; on the host not past the folder."""
    folder = tmp_path / "secrets"
    make_secrets(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}


def test_secrets_are_long_and_differ(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    make_secrets(folder)
    values = {path.name: path.read_text() for path in folder.iterdir()}
    tokens = [values[name] for name in ("palanca_read", "palanca_write", "grafana_admin", "langfuse_redis")]
    assert len(set(tokens)) == len(tokens)
    assert all(re.fullmatch(r"[0-9a-f]{64}", token) for token in tokens)
    assert values["hf_token"] == ""


def test_langfuse_is_told_the_passwords_of_its_stores(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    make_secrets(folder)
    value = {path.name: path.read_text() for path in folder.iterdir()}
    told = dict(line.split("=", 1) for line in value["langfuse.env"].splitlines() if line)
    assert told["REDIS_AUTH"] == value["langfuse_redis"]
    assert told["LANGFUSE_S3_EVENT_UPLOAD_SECRET_ACCESS_KEY"] == value["langfuse_minio"]
    assert value["langfuse_postgres"] in told["DATABASE_URL"]
    assert f"CLICKHOUSE_PASSWORD={told['CLICKHOUSE_PASSWORD']}\n" == value["langfuse-clickhouse.env"]
    assert told["LANGFUSE_INIT_PROJECT_PUBLIC_KEY"] == value["langfuse_public_key"]
    assert told["LANGFUSE_INIT_PROJECT_SECRET_KEY"] == value["langfuse_secret_key"]
    assert len(bytes.fromhex(told["ENCRYPTION_KEY"])) == 32


def test_secrets_are_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    assert "made" in make_secrets(folder)
    before = {path.name: path.read_text() for path in folder.iterdir()}
    assert make_secrets(folder) == ""
    assert {path.name: path.read_text() for path in folder.iterdir()} == before


def test_secrets_are_not_committed() -> None:
    assert "secrets/" in (FOLDER / ".gitignore").read_text().splitlines()
