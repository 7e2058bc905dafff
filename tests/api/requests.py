"""Any request that an OpenAPI document allows, and many that it does not, sent to a running service."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
import schemathesis
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

Operation = APIOperation[Any, Any, Any, Any]
EXAMPLES_PER_ROUTE = 25
LONGEST_URL = 60_000
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance",
)  # fmt: skip


def tried_all(
    document: Mapping[str, Any],
    url: str,
    seed: int,
    examples: int = EXAMPLES_PER_ROUTE,
    *,
    checks: tuple[str, ...] = CHECKS,
    enough: Callable[[], bool] = lambda: False,
) -> tuple[list[str], set[int]]:
    """Ask every route, rightly and wrongly; what is not as documented, and the statuses that were met.

    The same requests for the same seed. ``enough`` says to leave out the routes that are left.
    """
    load_all_checks()
    schema = schemathesis.openapi.from_dict(dict(document))
    schema.config.update(base_url=url, request_timeout=60)
    failures: list[str] = []
    statuses: set[int] = set()
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        for mode in GenerationMode:
            if not enough():
                options = hypothesis.settings(
                    max_examples=examples,
                    database=None,
                    deadline=None,
                    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
                    suppress_health_check=list(hypothesis.HealthCheck),
                )
                statuses |= _tried(result.ok(), mode, (seed, options), checks, failures)
    return failures, statuses


def _tried(
    operation: Operation,
    mode: GenerationMode,
    choice: tuple[int, hypothesis.settings],
    checks: tuple[str, ...],
    failures: list[str],
) -> set[int]:
    statuses: set[int] = set()
    looked: list[Any] = [*schemathesis.checks.CHECKS.get_by_names(list(checks))]

    @hypothesis.seed(choice[0])
    @choice[1]
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def one(case: Case[Any]) -> None:
        response = case.call()
        hypothesis.assume(len(str(response.request.url)) < LONGEST_URL)  # the server refuses a longer one by itself
        statuses.add(response.status_code)
        try:
            case.validate_response(response, checks=looked)
        except FailureGroup as group:
            failures.extend(f"{operation.label}: {type(one).__name__} {one}"[:500] for one in group.exceptions)

    with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # a route without parameters cannot be asked wrongly
        one()
    return statuses
