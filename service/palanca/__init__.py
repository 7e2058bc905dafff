"""palanca: which vLLM flag to change, to what value, why, and whether the change worked."""

__version__ = "0.1.0"
