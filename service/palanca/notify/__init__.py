"""Telling people: who is told what and when, and how it gets there.

``notices`` and ``routing`` are pure: a look at a source becomes notices, and notices become postings to receivers.
``dispatcher`` sends what lies in an outbox (``palanca.outgoing.Outbox``), by a ``sender`` for each receiver (``slack``,
``webhook``).
``alertmanager`` and ``pushed`` push to Alertmanager, ``silences`` reads from it, ``alert_groups`` are what it sends.
``courier`` is for those who have notices of their own, such as the webhook of Alertmanager.
"""
