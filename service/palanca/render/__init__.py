"""Diagnoses as text, markdown and JSON. Pure."""
