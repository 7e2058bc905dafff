"""vLLM and Prometheus as processes of the lab's own, each ended by its group."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers import free_port, tool

from lab.environment import NAME, Environment

START_S = 240.0
"""The longest time until a server answers."""
END_S = 10.0
SCRAPE_S = 2
COMMON = (
    "--served-model-name", NAME, "--load-format", "dummy", "--dtype", "bfloat16",
    "--enforce-eager", "--block-size", "32",
)  # fmt: skip
"""Flags of every server: what a model of made-up weights on a CPU needs."""
SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}
"""Environment of vLLM: nothing is sent, 1 GiB of KV cache, one thread, so that a client finds a core."""


class StartError(Exception):
    """A server did not come up; the end of its log."""


def serve_line(model: str, context: int, flags: Sequence[str]) -> tuple[str, ...]:
    """The command line as its owner would tell it; ``context`` in tokens."""
    return ("vllm", "serve", model, *COMMON, "--max-model-len", str(context), *flags)


@contextmanager
def vllm(environment: Environment, line: Sequence[str], port: int, log: Path) -> Iterator[None]:
    """Run a vLLM server from when it is healthy until the block ends."""
    command = [
        str(environment.python), str(environment.python.with_name("vllm")), *line[1:],
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    with _running(command, f"http://127.0.0.1:{port}/health", log, SETTINGS, environment.folder):
        yield


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[str]:
    """Run a Prometheus that scrapes vLLM at a port; yields its URL."""
    folder.mkdir(parents=True)
    config, port = folder / "prometheus.yml", free_port()
    config.write_text(
        f"global: {{scrape_interval: {SCRAPE_S}s, scrape_timeout: {SCRAPE_S}s}}\n"
        f'scrape_configs: [{{job_name: vllm, static_configs: [{{targets: ["127.0.0.1:{target}"]}}]}}]\n',
        encoding="ascii",
    )
    command = [
        tool("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with _running(command, f"{url}/-/ready", folder / "prometheus.log", {"GOMAXPROCS": "1"}, folder):
        yield url


def palanca(*arguments: str) -> tuple[str, str, int]:
    """Run the program as a user does: standard output, standard error, exit code."""
    command = [sys.executable, "-m", "palanca.cli", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    return done.stdout, done.stderr, done.returncode


def typed(*arguments: str) -> str:
    """The command line of ``palanca`` as one would type it."""
    return shlex.join(["palanca", *arguments])


@contextmanager
def _running(
    command: Sequence[str], ready: str, log: Path, settings: Mapping[str, str], folder: Path
) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder,
            env={**os.environ, **settings}, start_new_session=True,
        )  # fmt: skip
        try:
            _wait(process, ready, log)
            yield
        finally:
            _end(process)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310  our own server
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    raise StartError("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group, which is its own."""
    for number, patience in ((signal.SIGTERM, END_S), (signal.SIGKILL, END_S)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
