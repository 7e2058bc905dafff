"""Real vLLM in the loop: break a server by a flag, let palanca say what to change, change it, and see what came of it.

``python -m lab`` (``make lab``); docs/lab.md says what it shows. Imports point one way: ``load``, ``treatment``,
``figures`` and ``report`` are pure; ``faults`` is the table of what is broken; ``environment``, ``processes``,
``client`` and ``prometheus`` reach outside; ``trial`` puts them together.
"""
