"""How a lever is spelled in the releases that an engine can be running."""

from __future__ import annotations

import pytest
from tests.engines import shipped

from palanca.advice.levers import Spelling, spell
from palanca.model import Direction, Lever, VllmVersion
from palanca.releases import Release

RELEASES = ("0.8.0", "0.8.5", "0.9.0", "0.10.0", "0.11.0")
LEVER = Lever.model_validate(
    {
        "title": "Drafts",
        "forms": [
            {"releases": "0.8.0-0.8.5", "flag": "--old", "argument": "--old {value}", "disable": "remove --old"},
            {"releases": "0.9.0-0.10.0", "flag": "--new", "argument": "--new '{{{value}}}'"},
        ],
    }
)


def version(first: str, last: str) -> VllmVersion:
    return VllmVersion(first, last, ("v1",), "inferred")


@pytest.mark.parametrize(
    ("first", "last", "direction", "value", "spelling"),
    [
        ("0.8.0", "0.8.5", "raise", "5", Spelling("--old", "--old 5")),
        ("0.9.0", "0.9.0", "raise", "5", Spelling("--new", "--new '{{5}}'")),
        ("0.8.5", "0.9.0", "raise", "5", Spelling("--new", "--new '{{5}}'", ("--old 5",))),
        ("0.8.5", "0.9.0", "raise", None, Spelling("--new", None)),
        ("0.8.0", "0.8.0", "disable", "false", Spelling("--old", "remove --old")),
        ("0.9.0", "0.9.0", "disable", "false", Spelling("--new", None)),
        ("0.8.0", "0.10.0", "disable", "false", Spelling("--new", None, ("remove --old",))),
        ("0.10.0", "0.11.0", "raise", "5", None),
        ("0.11.0", "0.11.0", "raise", "5", None),
        ("0.7.0", "0.7.0", "raise", "5", None),
        ("0.8.3", "0.8.4", "raise", "5", Spelling("--old", "--old 5")),
        ("0.8.5.post1", "0.8.5.post1", "raise", "5", None),
        ("0.12.0", "0.12.0", "raise", "5", None),
    ],
)
def test_spelling(first: str, last: str, direction: Direction, value: str | None, spelling: Spelling | None) -> None:
    """The newest form, with the older ones of the range beside it; nothing where any release lacks the lever."""
    assert spelling == spell(LEVER, version(first, last), RELEASES, direction, value)


def test_unknown_version() -> None:
    """Without a version every known release is possible."""
    assert None is spell(LEVER, None, RELEASES, "raise", "5")
    assert Spelling("--new", "--new '{{5}}'", ("--old 5",)) == spell(LEVER, None, RELEASES[:-1], "raise", "5")


def test_actions_have_no_flag() -> None:
    """What is done outside vLLM exists in every release."""
    lever = Lever(title="Replicas", action="run more engines")
    assert Spelling(None, None) == spell(lever, version("0.1.0", "9.9.9"), RELEASES, "raise", None)


@pytest.mark.parametrize(
    ("lever", "release", "direction", "value", "argument"),
    [
        ("max_num_seqs", "0.4.0", "raise", "96", "--max-num-seqs 96"),
        ("watermark", "0.23.0", "raise", "0.03", None),
        ("watermark", "0.24.0", "raise", "0.03", "--watermark 0.03"),
        ("speculative_config", "0.8.1", "disable", None, "remove --speculative-model and --num-speculative-tokens"),
        ("speculative_config", "0.8.3", "disable", None, "remove --speculative-config"),
        ("enable_chunked_prefill", "0.33.0", "enable", "true", "--enable-chunked-prefill"),
        ("enable_prefix_caching", "0.33.0", "disable", "false", "--no-enable-prefix-caching"),
        ("api_server_count", "0.9.0", "raise", "2", None),
        ("num_gpu_blocks_override", "0.33.0", "disable", None, "remove --num-gpu-blocks-override"),
    ],
)
def test_shipped_levers(
    lever: str, release: str, direction: Direction, value: str | None, argument: str | None
) -> None:
    """Shipped levers in releases around their changes."""
    catalogue = shipped()
    made = spell(catalogue.levers[lever], version(release, release), catalogue.metrics.releases, direction, value)
    assert argument == (made.argument if made else None)


def test_shipped_forms_do_not_overlap() -> None:
    """Each release has at most one form of a lever."""
    catalogue = shipped()
    for name, lever in catalogue.levers.items():
        for release in catalogue.metrics.releases:
            assert 1 >= sum(Release(release) in form.releases for form in lever.forms), (name, release)
