"""Options that several commands share, and how they become arguments of the parts below."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from palanca.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palanca.model import Catalogue, Fact, Target
    from palanca.sources.session import Access

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Rules = Annotated[
    Path | None, typer.Option("--rules", metavar="DIR", help="Folder of rules that add to or replace the shipped ones.")
]
At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="RFC 3339, unix seconds, or -30m before the newest data.")
]
Window = Annotated[
    str | None,
    typer.Option("--window", metavar="DURATION", help="Replaces the windows of the signals, e.g. 60s."),
]
Match = Annotated[
    list[str] | None,
    typer.Option("--match", metavar="LABEL=VALUE", help="Only targets with this label (repeatable)."),
]
ServeArgs = Annotated[
    str | None, typer.Option("--serve-args", metavar="ARGS", help="The arguments that vllm serve was started with.")
]
Manifest = Annotated[
    str | None,
    typer.Option("--manifest", metavar="FILE[#NAME]", help="Kubernetes or compose file that starts vLLM."),
]
Slo = Annotated[
    list[str] | None,
    typer.Option("--slo", metavar="NAME=SECONDS", help="Objective, e.g. ttft_p99=0.8 (repeatable)."),
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings: what is known of each target.")
]
Recording = Annotated[
    Path | None, typer.Option("--recording", metavar="FILE", help="OpenMetrics text with timestamps, plain or gzip.")
]
PrometheusUrl = Annotated[
    str | None, typer.Option("--prometheus", metavar="URL", help="A Prometheus-compatible server.")
]
Scrape = Annotated[
    list[str] | None, typer.Option("--scrape", metavar="URL", help="A vLLM server to scrape (repeatable).")
]
Wait = Annotated[
    str, typer.Option("--wait", metavar="DURATION", help="How long to watch a vLLM server that is scraped.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write all files into this folder.")]
Releases = Annotated[
    str, typer.Option("--vllm", metavar="RELEASES", help="Releases of vLLM: 0.33, 0.24.0-0.33.0, 0.24+ or all.")
]
ExternalUrl = Annotated[
    str | None, typer.Option("--external-url", metavar="URL", help="Where people reach palanca, for links.")
]
Format = Annotated[Literal["text", "json", "markdown"], typer.Option("--format", help="How the result is written.")]
TextOrJson = Annotated[Literal["text", "json"], typer.Option("--format", help="How the result is written.")]


def usage(message: str, hint: str) -> UsageError:
    """Make a usage error that says how to mend it."""
    return UsageError(f"{message}; {hint}")


def one_way(out: Path | None, form: str | None, example: str) -> None:
    """Check that files are either written or one is printed. Raises ``UsageError``."""
    if (out is None) == (form is None):
        raise usage("nothing to write to" if out is None else "--out and --format exclude each other",
                    f"--out DIR writes all files, --format {example} prints one")  # fmt: skip


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, by their paths below a folder. Raises ``UsageError``."""
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise usage(f"--out {folder}: {error.strerror}", "give a folder that can be written") from None


def catalogue(overlay: Path | None) -> Catalogue:
    """Load the shipped rules and those of the overlay. Raises ``RuleFileError``."""
    from palanca.check import load_catalogue
    from palanca.resources import shipped

    return load_catalogue([shipped("rules"), *([overlay] if overlay else [])])


def positive(text: str, option: str) -> float:
    """Read a duration longer than 0. Raises ``UsageError``."""
    from palanca.moments import seconds

    try:
        value = seconds(text)
    except ValueError as error:
        raise usage(f"{option}: {error}", f"e.g. {option} 60s") from None
    if value <= 0:
        raise usage(f"{option} must be longer than 0", f"e.g. {option} 60s")
    return value


def matchers(texts: Sequence[str]) -> dict[str, str]:
    """Read ``LABEL=VALUE`` pairs. Raises ``UsageError``."""
    from palanca.render.words import encodable

    made: dict[str, str] = {}
    for text in texts:
        label, equals, value = text.partition("=")
        if not equals or not _LABEL.fullmatch(label):
            raise usage(f"--match {text!r} is not LABEL=VALUE", "e.g. --match model_name=llama")
        if label.startswith("__"):
            raise usage(f"--match {label}: no target has such a label", "e.g. --match model_name=llama")
        if encodable(value) != value:
            raise usage(f"--match {text!r} is no UTF-8 text", "no label has such a value")
        if made.get(label, value) != value:
            raise usage(f"--match gives {label} two values", "one value for each label")
        made[label] = value
    return made


def flags(serve_args: str | None, manifest: str | None) -> dict[str, str]:
    """Read the flags of ``vllm serve`` from a command line or a manifest. Raises ``UsageError``."""
    from palanca.facts import parse_serve_args
    from palanca.manifest import serve_arguments

    if serve_args is not None and manifest is not None:
        raise usage("--serve-args and --manifest exclude each other", "give one of them")
    if manifest is not None:
        file, _, name = manifest.partition("#")
        serve_args = serve_arguments(Path(file), name or None)
    return {} if serve_args is None else parse_serve_args(serve_args)


def objectives(texts: Sequence[str], known: Catalogue) -> dict[str, float]:
    """Read ``NAME=SECONDS`` pairs as facts ``slo.NAME``. Raises ``UsageError``."""
    names = [name.removeprefix("slo.") for name in known.facts if name.startswith("slo.")]
    made: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in names:
            raise usage(f"--slo {text!r} is not NAME=SECONDS", f"NAME is one of {', '.join(names)}")
        try:
            made[f"slo.{name}"] = float(value)
        except ValueError:
            raise usage(f"--slo {name}: {value!r} is no number", "seconds, e.g. 0.8") from None
        if not 0 < made[f"slo.{name}"] < float("inf"):
            raise usage(f"--slo {name} must be above 0", "seconds, e.g. 0.8")
    return made


@dataclass(frozen=True)
class Configured:
    """The rules, and what a settings file says of targets."""

    catalogue: Catalogue
    facts: Callable[[Target], Mapping[str, Fact]] | None = None
    thresholds: Callable[[Target], Mapping[str, Mapping[str, float]]] | None = None


def configured(path: Path | None, overlay: Path | None) -> Configured:
    """Load the rules, and the targets, thresholds and rules of a settings file. Raises ``RuleFileError``.

    The overlay of ``--rules`` goes before that of the file.
    """
    if path is None:
        return Configured(catalogue(overlay))
    from palanca.settings import knowledge, load, matrix

    made = load(path, {})
    known, hardware = matrix(overlay or made.settings.rules)
    said = knowledge(made, known, hardware)
    return Configured(known, said.facts, said.thresholds)


def headers(texts: Sequence[str]) -> dict[str, str]:
    """Read ``NAME:VALUE`` pairs. Raises ``UsageError``."""
    made: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not _HEADER.fullmatch(name.strip()) or "\n" in value or "\r" in value:
            raise usage(f"--header {name!r} is not NAME:VALUE", "e.g. --header X-Scope-OrgID:team")
        made[name.strip()] = value.strip()
    return made


@dataclass(frozen=True)
class Reach:
    """How to reach a server: the options of every command that reads from one (see ``reaching``)."""

    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME:VALUE", help="HTTP header, e.g. X-Scope-OrgID:team (repeatable)."),
    ] = None
    bearer_file: Annotated[
        Path | None, typer.Option("--bearer-file", metavar="FILE", help="File with a bearer token.")
    ] = None
    basic_file: Annotated[
        Path | None, typer.Option("--basic-file", metavar="FILE", help="File with user:password.")
    ] = None
    ca_file: Annotated[
        Path | None, typer.Option("--ca-file", metavar="FILE", help="Certificate authorities (PEM) to trust.")
    ] = None
    client_cert: Annotated[
        Path | None, typer.Option("--client-cert", metavar="FILE", help="Client certificate (PEM).")
    ] = None
    client_key: Annotated[Path | None, typer.Option("--client-key", metavar="FILE", help="Its key (PEM).")] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Do not check the server's certificate.")] = False
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="Longest time for one question, retries included.")
    ] = "30s"

    def access(self) -> Access:
        """Make the access to a server. Raises ``UsageError``."""
        from palanca.sources.session import Access

        if self.bearer_file is not None and self.basic_file is not None:
            raise usage("--bearer-file and --basic-file exclude each other", "give one of them")
        basic = None
        if self.basic_file is not None:
            user, colon, password = _secret(self.basic_file, "--basic-file").partition(":")
            if not colon:
                raise usage(f"--basic-file {self.basic_file}: no colon in it", "the file holds user:password")
            basic = (user, password)
        return Access(
            headers=headers(self.header or ()),
            bearer=None if self.bearer_file is None else _secret(self.bearer_file, "--bearer-file"),
            basic=basic,
            ca_file=self.ca_file,
            client_cert=self.client_cert,
            client_key=self.client_key,
            insecure=self.insecure,
            timeout=positive(self.timeout, "--timeout"),
        )


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of ``Reach``, where its parameter ``reach`` stands."""
    return sharing("reach", Reach, command)


def sharing(place: str, group: type[Any], command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a dataclass, where its parameter ``place`` stands."""
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(group, eval_str=True).parameters
    parameters: list[inspect.Parameter] = []
    for one in own.parameters.values():
        options = [option.replace(kind=option.KEYWORD_ONLY) for option in shared.values()]
        parameters += options if one.name == place else [one]

    @functools.wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401  the values of options are of all types
        made = group(**{name: given.pop(name) for name in shared})
        command(**{place: made}, **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _secret(path: Path, option: str) -> str:
    """Read a secret. Raises ``UsageError``."""
    from palanca.settings import read_secret

    try:
        return read_secret(path).get_secret_value()
    except UsageError as error:
        raise UsageError(f"{option} {error}") from None


def terminal() -> tuple[int, bool]:
    """Width of the terminal, and whether it shows colours (NO_COLOR is obeyed)."""
    from rich.console import Console

    console = Console()
    return console.width, console.is_terminal and not console.no_color


def say(text: str, *, color: bool | None = None) -> None:
    """Write to stdout; a reader that has gone (``| head``) is no error and leaves the exit code alone."""
    try:
        typer.echo(text, color=color)
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Send what is still to be written to stdout nowhere, so that nothing fails again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
