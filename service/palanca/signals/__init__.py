"""Signals: one definition, two readers (PromQL and samples), one assembly."""
