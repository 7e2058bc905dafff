"""Made-up vLLM engines that fall ill, recover, and stop answering, and the truth about when they did."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Literal

from tests.servers import Reply, Request

State = Literal["well", "ill", "dead"]
ILL_S, WELL_S, DEAD_S = (70.0, 140.0), (55.0, 120.0), (50.0, 90.0)
"""How long a state lasts at least and at most."""
FULL, PLENTY = 0.97, 0.4
BOUNDS = ("0.1", "0.5", "1.0", "5.0", "+Inf")


@dataclass(frozen=True)
class Span:
    """A state from one moment to another, unix seconds."""

    state: State
    begin: float
    end: float


@dataclass
class Engine:
    """One engine with a model of its own, whose page is as its state. ``truth`` are the spans that are over."""

    model: str
    state: State = "well"
    truth: list[Span] = field(default_factory=list)
    since: float = field(default_factory=time.time)
    _born: float = field(default_factory=time.time)
    _way: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def become(self, state: State, way: int = 0) -> None:
        """Go on in another state; ``way`` says how a dead one fails."""
        with self._lock:
            now = time.time()
            self.truth.append(Span(self.state, self.since, now))
            self.state, self.since, self._way = state, now, way

    def spans(self) -> list[Span]:
        """All spans until now."""
        with self._lock:
            return [*self.truth, Span(self.state, self.since, time.time())]

    def __call__(self, request: Request) -> Reply:
        """Answer a request."""
        if request.path != "/metrics":
            return Reply(404, b"{}")
        with self._lock:
            if self.state != "dead":
                return Reply(body=self._page(), headers={"Content-Type": "text/plain; version=0.0.4"})
            whole = self._page()
            ways = (Reply(503), Reply(body=whole[:200]), Reply(body=b"<html></html>"), Reply(body=whole, length=10**6))
            return ways[self._way % len(ways)]

    def _page(self) -> bytes:
        """What a server shows that has worked evenly since it was born."""
        labels = f'model_name="{self.model}",engine="0"'
        count = (time.time() - self._born) * 10
        rows = {
            f"vllm:num_requests_running{{{labels}}}": 4.0,
            f"vllm:num_requests_waiting{{{labels}}}": 0.0,
            f"vllm:kv_cache_usage_perc{{{labels}}}": FULL if self.state == "ill" else PLENTY,
            f"vllm:generation_tokens_total{{{labels}}}": count * 50,
            f"vllm:prompt_tokens_total{{{labels}}}": count * 100,
            f"vllm:num_preemptions_total{{{labels}}}": 0.0,
            f'vllm:request_success_total{{finished_reason="stop",{labels}}}': count,
            f"vllm:time_to_first_token_seconds_sum{{{labels}}}": count * 0.08,
            f"vllm:time_to_first_token_seconds_count{{{labels}}}": count,
            "process_start_time_seconds": self._born,
        }
        name = "vllm:time_to_first_token_seconds_bucket"
        rows |= {f'{name}{{le="{bound}",{labels}}}': count for bound in BOUNDS}
        return "".join(f"{series} {value}\n" for series, value in rows.items()).encode()


def live(engine: Engine, dice: random.Random, over: threading.Event) -> None:
    """Change the state of an engine at random, until it is over; then it is well."""
    over.wait(dice.uniform(10.0, 40.0))
    while not over.is_set():
        if dice.random() < 0.7:  # noqa: PLR2004  most often it falls ill
            engine.become("ill")
            over.wait(dice.uniform(*ILL_S))
        else:
            engine.become("dead", dice.randrange(4))
            over.wait(dice.uniform(*DEAD_S))
        engine.become("well")
        over.wait(dice.uniform(*WELL_S))
