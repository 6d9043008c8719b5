"""The contract of a backend as tests: subclass `BackendConformance`, give it `make_backend`, and run pytest.

    class TestMyBackend(BackendConformance):
        def make_backend(self, folder: Path) -> Backend:
            return MyBackend(folder / "store")

The last test drives the backend and the memory backend through the same random history and compares all there is to
read. Ties that the contract leaves open are broken so: events by id; due events of several workflows by workflow
id, then id.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conductorlite.store.ports import Backend
from conductorlite.testing.conformance.changes import ChangeConformance
from conductorlite.testing.conformance.executions import ExecutionConformance, LookupConformance
from conductorlite.testing.conformance.groups import GroupConformance
from conductorlite.testing.conformance.indexes import IndexConformance
from conductorlite.testing.conformance.limits import LimitConformance
from conductorlite.testing.conformance.locks import LockConformance
from conductorlite.testing.conformance.mailboxes import (
    EventConformance,
    LineConformance,
    MailboxConformance,
    MessageConformance,
)
from conductorlite.testing.conformance.owners import (
    DrivenConformance,
    HolderConformance,
    OwnerConformance,
    ScheduleConformance,
    SchemaConformance,
)
from conductorlite.testing.conformance.payloads import PayloadConformance, PayloadStorageConformance
from conductorlite.testing.conformance.transactions import TransactionConformance

__all__ = ["BackendConformance", "IndexConformance", "LockConformance", "PayloadStorageConformance"]


class BackendConformance(
    ChangeConformance,
    DrivenConformance,
    EventConformance,
    ExecutionConformance,
    GroupConformance,
    HolderConformance,
    LimitConformance,
    LineConformance,
    LookupConformance,
    MailboxConformance,
    MessageConformance,
    OwnerConformance,
    PayloadConformance,
    ScheduleConformance,
    TransactionConformance,
    SchemaConformance,
):
    """Tests of a backend. Subclass it and implement `make_backend`."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[Backend]:
        """The store under test."""
        backend = self.make_backend(tmp_path)
        yield backend
        backend.close()
