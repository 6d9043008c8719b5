"""What the engine asks of storage, and what answers: in memory, in SQLite; locks, payloads, the search index.

Authors of stores, locks and indexes find what is asked in `ports` and `transactions`; the suites of
`conductorlite.testing` say whether it is done well.
"""
