"""The index in Elasticsearch and OpenSearch: the contract on real servers, and what happens when these are lost or not there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from places import url_of

from conductorlite.store.ports import IndexDAO
from conductorlite.testing import IndexConformance

KINDS = ["elasticsearch", "elasticsearch7", "opensearch"]


def opened(url: str) -> Any:
    """An index, as an engine opens it."""
    from conductorlite.ext.search_server import SearchServerIndex

    return SearchServerIndex.from_url(url)


def removed(url: str) -> None:
    """Remove all indexes of a name."""
    index = opened(url)
    for one in index._indexes(f"{index._name}-*/_alias"):
        index._asked("DELETE", f"/{one}", allowed=(404,))
    index.close()


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an index that no other test has."""
    url = f"{url_of(request.param)}/test-{uuid.uuid4().hex[:12]}?replicas=0"
    yield url
    removed(url)


class _Conformance(IndexConformance):
    """An index of its own for each folder."""

    server = ""

    @pytest.fixture(autouse=True)
    def _urls(self) -> Iterator[None]:
        self.place = url_of(self.server)
        self.urls: dict[Path, str] = {}
        yield
        for url in self.urls.values():
            removed(url)

    def make_index(self, folder: Path) -> IndexDAO:
        """A handle on the index of a folder."""
        url = self.urls.setdefault(folder, f"{self.place}/test-{uuid.uuid4().hex[:12]}?replicas=0")
        index: IndexDAO = opened(url)
        return index

    @contextmanager
    def opened(self, folder: Path | None = None, *put: Any) -> Iterator[IndexDAO]:
        """A handle; an index that no folder was named for goes with it."""
        with super().opened(folder, *put) as index:
            yield index
        for one in [one for one in self.urls if folder is None and not one.exists()]:
            removed(self.urls.pop(one))


class TestElasticsearch(_Conformance):
    """The version that is current."""

    server = "elasticsearch"


class TestElasticsearch7(_Conformance):
    """The oldest."""

    server = "elasticsearch7"


class TestOpenSearch(_Conformance):
    """The other branch."""

    server = "opensearch"
