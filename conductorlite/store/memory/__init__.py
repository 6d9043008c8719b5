"""Rows in dicts: the store of tests, and the oracle of the conformance suite.

What it guarantees: the same as a store in a file, but that it ends with its process. A change that raises leaves nothing; a view
is taken under the backend's lock, so it is one state, and frozen values are given out, so nobody changes what is stored.

How it works. `rows` holds the dicts and sorted sets, each change of which goes through five methods that note its inverse:
undoing replays them backwards. `reads` and `writes` are a view and a change; `limits` and `tables` the parts beside executions.
With `relay` the outgoing part of a decision waits in an outbox, as in a store that cannot commit it with the rest.

What is not pretty: searches look at every execution, and so does finding what an external index is to be fed with.
"""
