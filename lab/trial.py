"""One fault from end to end: break, diagnose, follow the first recommendation, verify."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.servers import free_port

from lab.client import Run, send
from lab.environment import NAME, Environment
from lab.faults import Fault
from lab.figures import Figures, figures
from lab.load import Load
from lab.processes import StartError, palanca, prometheus, serve_line, typed, vllm
from lab.recording import record
from lab.treatment import Advice, Document, first_advice, treat
from palanca.changes import WARM_UP_S

PERIOD_S = 48.0
"""Compared on each side: six batches of four scrapes."""
RAMP_S = 32.0
"""At the begin of a load, until it is what it stays."""
SPARE_S = 6.0
"""Between the begin of the process and what it says of it, and between the last scrape and the end."""
LOUD = frozenset({"warning", "critical"})


@dataclass
class Outcome:
    """What was done and what came of it; None where it did not get so far."""

    fault: Fault
    seed: int
    line: tuple[str, ...]
    commands: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    advice: Advice | None = None
    where: str = ""
    why_not: str = ""
    line_after: tuple[str, ...] | None = None
    load_after: Load | None = None
    before: Figures | None = None
    after: Figures | None = None
    verification: dict[str, Any] | None = None
    findings_after: list[dict[str, Any]] | None = None
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """Verdict of ``palanca verify``; empty where there was nothing to verify."""
        return str(self.verification["verdict"]) if self.verification else ""

    @property
    def still_there(self) -> bool:
        """Whether the finding whose advice was followed is still there after."""
        rule = self.advice.finding["rule"] if self.advice else None
        return any(one["rule"] == rule for one in self.findings_after or ())

    @property
    def cured(self) -> bool:
        """Whether the first recommendation helped, and the finding is gone."""
        return self.verdict == "helped" and not self.still_there

    @property
    def loud(self) -> list[dict[str, Any]]:
        """Root findings of the diagnosis before that are warnings or worse."""
        return [one for one in self.findings if one["role"] == "root" and one["severity"] in LOUD]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "fault": self.fault.name, "title": self.fault.title, "healthy": self.fault.healthy, "seed": self.seed,
            "flags": shlex.join(self.fault.flags), "serve": shlex.join(self.line), "load": self.fault.load.said(),
            "commands": self.commands, "findings": self.findings,
            "recommendation": dict(self.advice.recommendation) if self.advice else None,
            "applied": self.where or None, "why_not": self.why_not or None,
            "serve_after": shlex.join(self.line_after) if self.line_after else None,
            "load_after": self.load_after.said() if self.load_after else None,
            "verdict": self.verdict or None, "verification": shortened(self.verification),
            "findings_after": self.findings_after, "cured": None if self.fault.healthy else self.cured,
            "client": {
                "before": asdict(self.before) if self.before else None,
                "after": asdict(self.after) if self.after else None,
            },
            "seconds": round(self.seconds),
        }  # fmt: skip


class Trial:
    """Runs one fault in a folder of its own, and leaves there a recording and logs."""

    def __init__(self, environment: Environment, out: Path, seed: int, *, warm: bool = False) -> None:
        """``warm``: leave out before what ``palanca verify`` leaves out after, the first minutes of the process."""
        self._environment, self._out, self._seed = environment, out, seed
        self._cold = WARM_UP_S if warm else 0.0

    def run(self, fault: Fault) -> Outcome:
        """Break, diagnose, treat, verify."""
        began = time.time()
        outcome = Outcome(fault, self._seed, serve_line("model", fault.context, fault.flags))
        port = free_port()
        folder = self._out / "work"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            with prometheus(folder / "prometheus", port) as url:
                try:
                    self._trial(outcome, url, port)
                except StartError as error:
                    outcome.why_not = f"vLLM does not start: {str(error).splitlines()[-1]}"
                    say(f"{fault.name}: {outcome.why_not}")
                record(url, (began, time.time()), self._out / f"{fault.name}.om.gz")
        finally:
            shutil.rmtree(folder / "prometheus", ignore_errors=True)
        outcome.seconds = time.time() - began
        return outcome

    def _trial(self, outcome: Outcome, url: str, port: int) -> None:
        fault = outcome.fault
        say(f"{fault.name}: {shlex.join(fault.flags)}")
        run = self._load(outcome.line, fault.load, port, "before", self._cold)
        outcome.before = figures(run, PERIOD_S)
        diagnosis = self._diagnose(outcome, url, run.end, outcome.line)
        outcome.findings = found(diagnosis)
        outcome.advice = first_advice(diagnosis)
        if fault.healthy:
            return
        treated = treat(outcome.line, fault.load, outcome.advice)
        outcome.where, outcome.why_not = treated.where, treated.why_not
        if outcome.advice is None or treated.why_not:
            say(f"{fault.name}: cannot be followed: {treated.why_not}")
            return
        say(f"{fault.name}: {outcome.advice.finding['rule']}: {outcome.advice.said}")
        outcome.line_after, outcome.load_after = treated.arguments, treated.load
        run = self._load(treated.arguments, treated.load, port, "after", WARM_UP_S)
        outcome.after = figures(run, PERIOD_S)
        diagnosis = self._diagnose(outcome, url, run.end, treated.arguments, "--window", f"{PERIOD_S:g}s")
        outcome.findings_after = found(diagnosis)
        outcome.verification = self._verify(outcome, url, str(outcome.advice.finding["rule"]))
        say(f"{fault.name}: {outcome.verdict}: {outcome.verification['why']}")

    def _load(self, line: tuple[str, ...], load: Load, port: int, name: str, cold: float) -> Run:
        """Serve and send a load: its ramp and a period, and a period beyond the first ``cold`` s of the process."""
        log = self._out / "work" / f"{name}.log"
        began = time.time()
        with vllm(self._environment, line, port, log):
            now = time.time()
            say(f"  up after {now - began:.0f} s")
            until = max(now + RAMP_S + PERIOD_S, began + cold + PERIOD_S + SPARE_S)
            return asyncio.run(send(port, NAME, load, self._seed, until))

    def _diagnose(self, outcome: Outcome, url: str, moment: float, line: tuple[str, ...], *more: str) -> dict[str, Any]:
        arguments = [
            "diagnose", url, "--at", f"{moment:.3f}", "--serve-args", shlex.join(line), *more, "--format", "json",
        ]  # fmt: skip
        return self._asked(outcome, *arguments)

    def _verify(self, outcome: Outcome, url: str, rule: str) -> dict[str, Any]:
        arguments = ["verify", url, "--period", f"{PERIOD_S:g}s", "--rule", rule, "--format", "json"]
        return self._asked(outcome, *arguments)

    def _asked(self, outcome: Outcome, *arguments: str) -> dict[str, Any]:
        outcome.commands.append(typed(*arguments))
        said, error, code = palanca(*arguments)
        try:
            made: dict[str, Any] = json.loads(said)
        except ValueError:
            if arguments[0] != "verify":
                raise RuntimeError(f"palanca ended with {code}: {error}") from None
            return {"verdict": "cannot tell", "why": error.strip()}
        return made


def shortened(verification: Document | None) -> dict[str, Any] | None:
    """A verification without the signals one by one, which the recording gives again."""
    if verification is None:
        return None
    engines = [
        {key: value for key, value in one.items() if key != "signals"} for one in verification.get("engines", ())
    ]
    return {**verification, "engines": engines}


def found(diagnosis: Document) -> list[dict[str, Any]]:
    """Findings of all targets, without their evidence."""
    keys = ("rule", "title", "cause", "severity", "confidence", "role", "state", "summary")
    return [{key: one[key] for key in keys} for target in diagnosis["targets"] for one in target["findings"]]


def say(text: str) -> None:
    """Tell who waits."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
