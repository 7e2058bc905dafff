"""The Dockerfile says what docs/deploy/container.md promises; no container engine is needed to see it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch

import pytest
from tests.engines import ROOT


@dataclass(frozen=True)
class Step:
    """One instruction."""

    word: str
    text: str


def steps() -> list[Step]:
    """Read the instructions, lines that go on joined."""
    kept = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    lines = re.sub(r"\\\n\s*", " ", "\n".join(kept)).splitlines()
    return [Step(*line.split(None, 1)) for line in lines if line.strip()]


def stages() -> list[list[Step]]:
    """Instructions from each FROM to the next."""
    found: list[list[Step]] = []
    for step in steps():
        if step.word == "FROM":
            found.append([])
        if found:
            found[-1].append(step)
    return found


def last(word: str) -> str:
    return next(step.text for step in reversed(stages()[-1]) if step.word == word)


def sent(path: str) -> bool:
    """Whether .dockerignore lets a path of the checkout through: the last pattern that fits it or a parent decides."""
    answer = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        kept, pattern = pattern.startswith("!"), pattern.removeprefix("!")
        parts = path.split("/")
        parents = ["/".join(parts[:size]) for size in range(1, len(parts) + 1)]
        if any(fnmatch(parent, pattern.replace("**/", "*")) for parent in parents):
            answer = kept
    return answer


def test_base_is_pinned_once() -> None:
    (image,) = [step.text.split("=", 1)[1] for step in steps() if step.word == "ARG" and "IMAGE" in step.text]
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-[a-z]+", image)
    assert [stage[0].text.split()[0] for stage in stages()] == ["${PYTHON_IMAGE}"] * 2


def test_base_is_new_enough() -> None:
    (image,) = [step.text for step in steps() if step.word == "ARG" and "IMAGE" in step.text]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    version = [int(number) for number in image.split(":")[1].split("-")[0].split(".")]
    assert version >= [int(number) for number in needed.removeprefix(">=").split(".")]


def test_last_stage_has_only_what_runs() -> None:
    copied = [step.text for step in stages()[-1] if step.word in {"COPY", "ADD"}]
    assert copied == ["--from=build /opt/palanca /opt/palanca"]
    assert not [step for step in stages()[-1] if step.word == "RUN" and re.search(r"\b(pip|apt)", step.text)]


def test_user_is_a_number_and_not_root() -> None:
    user, group = last("USER").split(":")
    assert (user, group) == ("10001", "10001")
    order = [step.word for step in stages()[-1]]
    assert "RUN" not in order[order.index("USER") :]


def test_user_of_kubernetes_is_that_of_the_image() -> None:
    text = (ROOT / "deploy" / "kubernetes" / "base" / "deployment.yaml").read_text()
    assert last("USER") == ":".join(re.findall(r"runAs(?:User|Group): (\d+)", text))


def test_state_is_a_volume_that_the_user_owns() -> None:
    assert last("VOLUME") == "/var/lib/palanca"
    made = next(step.text for step in stages()[-1] if step.word == "RUN")
    assert "install -d -o 10001 -g 10001 -m 0750 /var/lib/palanca" in made
    assert "XDG_STATE_HOME=/var/lib" in last("ENV")


def test_command_serves_with_the_settings_file() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["palanca"]
    assert json.loads(last("CMD")) == ["serve", "--config", "/etc/palanca/palanca.yaml"]
    assert "--no-auth" not in last("CMD")


def test_health_check_runs_the_script_of_the_image() -> None:
    options, command = last("HEALTHCHECK").split(" CMD ")
    assert {option.split("=")[0] for option in options.split()} == {
        "--interval", "--timeout", "--start-period", "--retries",
    }  # fmt: skip
    assert json.loads(command) == ["python", "-I", "/opt/palanca/healthcheck.py"]
    assert any("healthcheck.py /opt/palanca/healthcheck.py" in step.text for step in stages()[0])


def test_labels() -> None:
    names = re.findall(r"org\.opencontainers\.image\.([a-z]+)=", last("LABEL"))
    assert names == ["title", "description", "licenses", "version", "revision"]
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    assert f'description="{described}"' in last("LABEL")


@pytest.mark.parametrize("text", [step.text for step in steps() if step.word == "RUN"])
def test_shell_of_each_run(text: str) -> None:
    checked = subprocess.run(["bash", "-n"], input=text, check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "sudo" not in shlex.split(text)


def test_what_is_copied_exists_and_is_sent() -> None:
    sources = [
        source
        for step in stages()[0]
        if step.word == "COPY"
        for source in step.text.split()[:-1]
        if not source.startswith("--") and source != "."
    ]
    used = re.findall(r"\bdeploy/\S+", " ".join(step.text for step in stages()[0] if step.word == "RUN"))
    for path in [*sources, *used]:
        assert (ROOT / path).exists(), path
        assert sent(path), path


def test_all_that_the_wheel_is_built_from_is_sent() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for folder in [*build["packages"], *build["force-include"]]:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert sent(str(path.relative_to(ROOT))), path
    for path in ("pyproject.toml", "README.md", "LICENSE", "requirements.lock"):
        assert sent(path), path


@pytest.mark.parametrize(
    "path",
    [".git/config", ".env", "deploy/compose/secrets/palanca_read", "tests/engines.py", "docs/design.md",
     "service/palanca/__pycache__/cli.cpython-311.pyc", ".venv/bin/python"],
)  # fmt: skip
def test_what_stays_out(path: str) -> None:
    assert not sent(path)
