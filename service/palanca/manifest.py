"""Finds the arguments of ``vllm serve`` in a Kubernetes manifest or a compose file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from palanca.errors import UsageError

_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main")
_IMAGES = ("vllm/vllm-openai", "vllm-openai", "/vllm:", "vllm-cpu")
_LARGEST = 5_000_000
_MOST, _DEEPEST = 100_000, 100
_SHELLS = {"sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash", "ash", "/bin/ash"}


class _TooMuchError(Exception):
    """The document has more parts than any manifest."""


class _Loader(yaml.SafeLoader):
    """Says where a value is that cannot be read: the library raises whatever Python does."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002  as in the base
        """Read one node. Raises ``yaml.YAMLError``."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:  # !!int x, !!bool x, 2024-99-99
            said = f"{node.value!r} cannot be read: {error}; quote it"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None


@dataclass(frozen=True)
class ServeCommand:
    """One vLLM server in a manifest: where it stands, and its arguments as one command line."""

    place: str
    arguments: str


def serve_arguments(path: Path, name: str | None = None) -> str:
    """Return the arguments of the vLLM server in a manifest; ``name`` picks one by the end of its place.

    Raises ``UsageError`` when the file cannot be read, holds none, or several that differ.
    """
    found = find(path)
    if name is not None:
        found = [one for one in found if name in one.place.split("/")]
    if not found:
        which = f" called {name!r}" if name is not None else ""
        message = (
            f"--manifest {path}: no `vllm serve`{which} in it; looked at commands and args of containers and services"
        )
        raise UsageError(message)
    if len({one.arguments for one in found}) > 1:
        places = ", ".join(one.place for one in found)
        message = (
            f"--manifest {path}: several vLLM servers ({places}); add #NAME to the file, e.g. {path}#{_name(found[0])}"
        )
        raise UsageError(message)
    return found[0].arguments


def _name(one: ServeCommand) -> str:
    return one.place.rpartition("/")[2]


def find(path: Path) -> list[ServeCommand]:
    """Return every vLLM server in a manifest. Raises ``UsageError`` when it cannot be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        message = f"--manifest {path}: cannot be read: {error.strerror}"
        raise UsageError(message) from None
    if len(raw) > _LARGEST:
        message = f"--manifest {path}: larger than {_LARGEST} bytes"
        raise UsageError(message)
    try:
        return [one for document in yaml.load_all(raw, _Loader) for one in _servers(document)]
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        message = f"--manifest {path}{place}: not YAML: {getattr(error, 'problem', error)}"
        raise UsageError(message) from None
    except _TooMuchError:
        limits = f"more than {_MOST:,} parts or {_DEEPEST} levels"
        message = f"--manifest {path}: {limits}; its aliases (*name) repeat each other without end"
        raise UsageError(message) from None


def _servers(document: object) -> Iterator[ServeCommand]:
    """Walk the document; a mapping with an image and a command or args is a container or a service.

    Raises ``_TooMuchError`` for what aliases make endless.
    """
    ahead: list[tuple[object, tuple[str, ...]]] = [(document, ())]
    for _ in range(_MOST):
        if not ahead:
            return
        node, place = ahead.pop()
        if len(place) > _DEEPEST:
            raise _TooMuchError
        if isinstance(node, Mapping):
            arguments = _container(node)
            if arguments is not None:
                name = str(node.get("name") or (place[-1] if place else "container"))
                owner = tuple(part for part in place if not part.isdigit())
                yield ServeCommand("/".join([*owner[:1], name]), arguments)
                continue
            metadata = node.get("metadata")
            own = metadata.get("name") if isinstance(metadata, Mapping) else None
            within = [(value, (str(own),) if own else (*place, str(key))) for key, value in node.items()]
            ahead += reversed(within)
        elif isinstance(node, Sequence) and not isinstance(node, str | bytes):
            ahead += reversed([(value, (*place, str(index))) for index, value in enumerate(node)])
    raise _TooMuchError


def _container(node: Mapping[Any, Any]) -> str | None:
    """Arguments of a container that runs vLLM; None when it does not."""
    words: list[str] = []
    for key in ("entrypoint", "command", "args"):
        value = node.get(key)
        if isinstance(value, str):
            words += _split(value)
        elif isinstance(value, Sequence):
            words += [str(word) for word in value if not isinstance(word, Mapping | list)]
    words = _unwrapped(words)
    started = _after_start(words)
    if started is not None:
        return shlex.join(started)
    image = node.get("image")
    if words and isinstance(image, str) and any(part in image for part in _IMAGES):
        return shlex.join(words)
    return None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _unwrapped(words: Sequence[str]) -> list[str]:
    """Look inside ``sh -c "..."``."""
    made = list(words)
    for index, word in enumerate(made):
        if word in _SHELLS and index + 2 < len(made) and made[index + 1].startswith("-") and "c" in made[index + 1]:
            inside = " ".join(made[index + 2 :]).replace("\\\n", " ")
            return _split(inside)
    return made


def _after_start(words: Sequence[str]) -> list[str] | None:
    """Words behind ``vllm serve`` or the API server's module, up to the next command of a shell."""
    for index, word in enumerate(words):
        serve = word.rpartition("/")[2] == "vllm" and list(words[index + 1 : index + 2]) == ["serve"]
        if serve or word in _MODULES:
            rest = list(words[index + (2 if serve else 1) :])
            ends = [place for place, one in enumerate(rest) if one in {"&&", "||", ";", "|", "&"}]
            return rest[: ends[0]] if ends else rest
    return None
