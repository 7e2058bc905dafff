"""Facts that follow from others."""

from __future__ import annotations

import pytest
from tests.engines import shipped

from palanca.facts import (
    complete,
)
from palanca.model import Fact


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("fp8", True), ("fp8_e5m2", True), ("nvfp4", True), ("auto", False), ("bfloat16", False)]
)
def test_narrow_kv(dtype: str, narrow: bool) -> None:
    """A KV cache below 16 bits is known from its data type."""
    facts = complete(shipped(), {"kv_cache_dtype": Fact(dtype, "given", "t")})
    assert narrow == facts["fp8_kv"].value
