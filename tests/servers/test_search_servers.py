"""The index in Elasticsearch and OpenSearch: the contract on real servers, and what happens when these are lost or not there."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from places import url_of

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import SchemaTooNew
from conductorlite.store.documents import WORKFLOWS
from conductorlite.store.ports import IndexDAO
from conductorlite.store.search import asked
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import IndexConformance
from conductorlite.testing.conformance.documents import whole

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import searching

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


#: Enough that a page past the 10,000 results that a server gives at once has something on it.
COUNT = 12_500


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteBackend]:
    """The store's own index, which knows so many executions."""
    store, _ = searching.filled(tmp_path_factory.mktemp("embedded"), COUNT)
    yield store
    store.close()


def test_every_kind_of_question_is_answered_alike(url: str, embedded: SQLiteBackend) -> None:
    """The fourteen kinds that are measured: as many hits, the same ones in the same order, on each page that is looked at."""
    index: IndexDAO = opened(url)
    identity, _ = index.standing()
    documents = searching.executions(COUNT)
    for position, at in enumerate(range(0, COUNT, 500), 1):
        index.feed(identity, position, [whole(one.workflow_id, [one]) for one in documents[at : at + 500]])
    assert len(searching.QUESTIONS) == 14
    found = {}
    for name, (query, words, sort) in searching.QUESTIONS.items():
        for start in (0, 9_900, 10_050) if name == "page 100" else (0, 40):
            wanted = asked(WORKFLOWS, query, words, start, 100, sort)
            with embedded.reading() as view:
                own = view.feeds.index()
                assert own is not None
                expected = own.workflows(wanted)
            assert index.workflows(wanted) == expected, name
            found[name] = expected.total_hits
    assert all(found.values()), found
    index.close()


def test_an_engine_is_told_what_is_wrong_at_open(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """On the server itself: an index of somebody else, one of a newer conductorlite, and one of an older, which is built again."""
    index = opened(url)
    with Engine(index=re.sub(r":\d+/", ":1/", url)):
        assert "the search server cannot be reached yet" in caplog.text
    name, newer = index._name, f"{index._name}-99-{'0' * 16}"
    index._asked("PUT", f"/{newer}", body={})
    standing = index.standing()[0]
    moved = [{"remove": {"index": standing, "alias": name}}, {"add": {"index": newer, "alias": name}}]
    index._asked("POST", "/_aliases", body={"actions": moved})
    index._asked("PUT", f"/{newer}/_doc/feed", body={"position": 3})
    with pytest.raises(SchemaTooNew, match="form 99"):
        Engine(index=url)
    older = f"{name}-0-{'0' * 16}"
    index._asked("PUT", f"/{older}", body={})
    moved = [{"remove": {"index": newer, "alias": name}}, {"add": {"index": older, "alias": name}}]
    index._asked("POST", "/_aliases", body={"actions": moved})
    index._asked("PUT", f"/{older}/_doc/feed", body={"position": 3})
    with Engine(index=url, clock=VirtualClock()) as engine:
        engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="t", task_reference_name="t")]), workflow_id="one")
        engine.admin.relay()  # finds it to be of an older form, and has an empty one in its place
        engine.admin.relay()
        assert engine.search("workflowId = one").total_hits == 1
        health = engine.admin.index_health()
        assert health is not None
        assert health.complete
    index.close()
