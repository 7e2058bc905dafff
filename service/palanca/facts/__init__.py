"""Facts of a target: reported by ``cache_config_info``, given by the operator, inferred from load, or a default."""

from palanca.facts.adding import add_facts
from palanca.facts.completion import complete
from palanca.facts.inference import INFERENCE_SIGNALS, infer, infer_slots, infer_token_budget
from palanca.facts.serve_args import GivenFlag, flags_in, parse_serve_args, words_of
from palanca.facts.told import Facts, defaults, given, known_flags, parse_value, reported

__all__ = [
    "INFERENCE_SIGNALS",
    "Facts",
    "GivenFlag",
    "add_facts",
    "complete",
    "defaults",
    "flags_in",
    "given",
    "infer",
    "infer_slots",
    "infer_token_budget",
    "known_flags",
    "parse_serve_args",
    "parse_value",
    "reported",
    "words_of",
]
