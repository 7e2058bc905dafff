"""The history of findings: episodes and events in SQLite, or in PostgreSQL for several replicas.

``facade`` is what the service speaks to: it never raises for trouble of the database. Below it ``store`` joins the
parts: ``recorder`` (one transaction a diagnosis), ``reader`` (pages), ``notes`` (what people add), ``leases``,
``retention``; ``observed`` is the pure part of what is noticed at a target. ``address``, ``database``, ``faults``,
``migrate`` and ``tables`` know the database, ``codec`` how findings are written.
"""
