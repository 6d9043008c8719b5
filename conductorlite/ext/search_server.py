"""An index in Elasticsearch or OpenSearch, through their own clients. The only importer of elasticsearch and opensearchpy.

What it asks of a server all of them have had for years, in the same words: documents with external versions, bulk, aliases, terms,
ranges, prefixes, wildcards, spans, composite aggregations. No scripts, no update by query, no nested documents, no join: so one
module serves Elasticsearch 7.17, 8 and 9 and OpenSearch, and nothing asks which it is but how a request is handed to a client.

Executions and attempts are documents of their own, whose version is that of the state they were made of. A name is an alias of the
index that is searched; writes go to an alias that each index has for itself, so that none is made again that was deleted.

What is not pretty. A server keeps the version of a document that was deleted for a while only (`index.gc_deletes`): a feeder that
is later than that can put it back, until it finds out itself and has it looked at again.

Source of the rule: Conductor's Elasticsearch index has one module per version, and passes queries through.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, final

import attrs

from conductorlite.engine.logs import log_store
from conductorlite.ext.search_queries import FORM, MAPPING, document_of, filters, order, source_of
from conductorlite.model.errors import (
    AccessDenied,
    EngineClosed,
    InvalidInput,
    MissingExtra,
    SchemaTooNew,
    StorageCorrupt,
    StorageError,
    StorageUnavailable,
)
from conductorlite.store.documents import Document
from conductorlite.store.places import Place, place_of
from conductorlite.store.ports import IndexEntry
from conductorlite.store.search import Asked, SearchResult, TaskSummary, WorkflowSummary, matches, page_of, summary, task_summary

__all__ = ["SearchServerIndex"]

_OPTIONS: Final = frozenset({"tls", "ca", "timeout", "shards", "replicas"})
_PORT: Final = 9200
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,199}")

#: How many results, ids and terms a server takes in one request, and documents and bytes we give it.
_PAGE: Final = 10_000
_TERMS: Final = 50_000
_ACTIONS: Final = 2_000
_BYTES: Final = 4 * 1024 * 1024

#: Pauses between tries of what a server was too busy for, seconds.
_PAUSES: Final = (0.1, 0.5, 2.0)

_MARK: Final = "feed"
#: What every document has, and no two have alike.
_IDENTIFYING: Final = [{"workflowId": "asc"}, {"referenceTaskName": "asc"}, {"retryCount": "asc"}]

Json = dict[str, Any]
#: A request: method, path, parameters, body, and whether that is lines of JSON; the status and the answer.
Ask = Callable[[str, str, Json, str | None, bool], tuple[int, Any]]


@final
class SearchServerIndex:
    """An index named `name` on the server of a client of `elasticsearch` or `opensearchpy`, which is closed with it.

    `shards` and `replicas` are those of indexes that are made. Thread-safe. A server that cannot be reached is logged, and asked
    again when there is something to index or to search. Raises InvalidInput for another name or client, AccessDenied when the
    server refuses the account, SchemaTooNew for an index of a newer conductorlite, which is left as it is.
    """

    def __init__(self, client: Any, name: str = "conductorlite", *, shards: int = 1, replicas: int = 1) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name!r:.80} is no name of an index: small letters, digits, `_`, `-` and `.`, up to 200")
        self._client = client
        self._name = name
        self._ours = re.compile(rf"{re.escape(name)}-([0-9]+)-[0-9a-f]{{16}}")
        self._settings = {"number_of_shards": shards, "number_of_replicas": replicas, "gc_deletes": "1h"}
        self._ask = _asking(client)
        self._closed = False
        #: The index that is searched, as it was known last.
        self._searched = ""
        try:
            self.standing()
        except StorageCorrupt:
            pass  # the feeder builds another one
        except StorageUnavailable as error:  # it may come: searches are answered by the store until it does
            log_store("the search server cannot be reached yet, the store answers searches meanwhile", error)

    @classmethod
    def from_url(cls, url: str) -> SearchServerIndex:
        """The index at `elasticsearch://user:password@host:9200,other/name?tls=true&ca=ca.pem&timeout=10&shards=1&replicas=1`.

        `opensearch://` likewise. `timeout` is the longest wait for an answer, seconds (10). Raises MissingExtra without the
        server's client, InvalidInput, StorageUnavailable, AccessDenied.
        """
        place = place_of(url, _PORT, _OPTIONS)
        client = _client_of(place)
        try:
            shards, replicas = place.number("shards", 1), place.number("replicas", 1, least=0)
            return cls(client, place.path or "conductorlite", shards=shards, replicas=replicas)
        except BaseException:
            client.close()
            raise

    # -- what is searched, and what is built beside it -------------------------------------------------------------------

    def standing(self) -> tuple[str, int]:
        """Identity and position of the index that is searched, which is made where there is none."""
        for _ in range(4):
            status, answer = self._asked("GET", f"/{self._name}/_doc/{_MARK}", allowed=(400, 404))
            if status < 300 and (not isinstance(answer, Mapping) or "_index" not in answer):
                raise InvalidInput(f"this is no search server: it answers {_problem(answer)!r:.80}")
            if "_index" in answer:
                identity: str = answer["_index"]
                ours = self._ours.fullmatch(identity)
                if ours is None:
                    raise InvalidInput(f"{self._name} is an index or an alias of {identity}, which was not made by conductorlite")
                if int(ours[1]) > int(FORM):
                    raise SchemaTooNew(f"{identity} has form {ours[1]}; this conductorlite knows up to {FORM}")
                if ours[1] != FORM:
                    raise StorageCorrupt(f"{identity} has form {ours[1]}, which is older than this version's, {FORM}")
                self._searched = identity
                return identity, answer["_source"]["position"] if answer.get("found") else 0
            if status == 404:
                self._made({self._name: {}})
            else:  # two processes have made one each: both keep the same one
                others = sorted(self._indexes(f"_alias/{self._name}"))[1:]
                actions = [{"remove_index": {"index": one}} for one in others]
                self._asked("POST", "/_aliases", body={"actions": actions}, allowed=(404,))
        raise StorageError(f"{self._name} cannot be distinguished from others: {_problem(answer)}")

    def begin(self) -> str:
        """Make an empty index that is not searched; returns its identity."""
        return self._made({})

    def _made(self, aliases: Json) -> str:
        identity = f"{self._name}-{FORM}-{os.urandom(8).hex()}"
        body = {"settings": {"index": self._settings}, "mappings": MAPPING, "aliases": {**aliases, f"{identity}.feed": {}}}
        # One that is asked for twice, because the answer to the first was lost, is there.
        self._asked("PUT", f"/{identity}", body=body, allowed=(400,), but="resource_already_exists_exception")
        return identity

    def switch(self, identity: str) -> None:
        """Search the index of that identity from now on, in one step; the others of this name go."""
        for _ in range(4):
            indexes = self._indexes(f"{self._name}-*/_alias")
            if identity not in indexes:
                break
            self._asked("POST", f"/{identity}/_refresh")
            actions: list[Json] = [{"remove_index": {"index": one}} for one in indexes - {identity}]
            actions.append({"add": {"index": identity, "alias": self._name}})
            status, _ = self._asked("POST", "/_aliases", body={"actions": actions}, allowed=(404,))
            if status != 404:
                self._searched = identity
                return
        raise StorageCorrupt(f"there is no index {identity}")

    def _indexes(self, path: str) -> set[str]:
        _, answer = self._asked("GET", f"/{path}", allowed=(404,))
        return {one for one in answer if self._ours.fullmatch(one)}

    # -- feeding -------------------------------------------------------------------------------------------------------

    def feed(self, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
        """Take entries into an index, and raise its position."""
        taken = list(entries)
        lines = [*self._leftovers(identity, taken)]
        for entry in taken:
            for one in entry.documents:
                lines.append(_action("index", _key(one.workflow_id, one.place), entry.version) + _line(source_of(one)))
        lines.append(_action("index", _MARK, position) + _line({"position": position}))
        refresh = identity == (self._searched or identity)
        for batch in _cut(lines):
            self._bulk(identity, batch, refresh=refresh)

    def _leftovers(self, identity: str, entries: Sequence[IndexEntry]) -> Iterator[str]:
        """Deletions of what is known of executions beside what is to be known of them."""
        whole = {entry.workflow_id: entry for entry in entries if entry.whole}
        if not whole:
            return
        self._asked("POST", f"/{identity}/_refresh", allowed=(404,))
        wanted = {_key(one.workflow_id, one.place) for entry in whole.values() for one in entry.documents}
        query = {"terms": {"workflowId": list(whole)}}
        for hit in self._walk(identity, query, _IDENTIFYING, {"includes": ["workflowId"]}):
            if hit["_id"] not in wanted:
                yield _action("delete", hit["_id"], whole[hit["_source"]["workflowId"]].version)

    def _bulk(self, identity: str, lines: Sequence[str], *, refresh: bool) -> None:
        """Have lines carried out; what a server is too busy for is tried again."""
        pauses = iter(_PAUSES)
        while lines:
            parameters = {"require_alias": "true", "refresh": "true" if refresh else "false"}
            path, text = f"/{identity}.feed/_bulk", "".join(lines)
            status, answer = self._asked("POST", path, parameters=parameters, lines=text, allowed=(404, 429))
            if status != 429:
                lines = _refused(identity, lines, answer)
            if lines and (pause := next(pauses, None)) is None:
                raise StorageUnavailable(f"{identity}: the server is too busy for {len(lines)} documents")
            if lines:
                threading.Event().wait(pause)

    # -- searching -----------------------------------------------------------------------------------------------------

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search."""
        total, page = self._page(asked)
        return SearchResult(total_hits=total, results=tuple(map(summary, page)))

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search."""
        total, page = self._page(asked)
        return SearchResult(total_hits=total, results=tuple(task_summary(one.fields, one.input, one.output) for one in page))

    def _page(self, asked: Asked) -> tuple[int, list[Document]]:
        """How many documents answer, and those of the page."""
        wanted, exact = filters(asked)
        ids = None if asked.with_task is None else self._ids_with(asked.with_task)
        if not exact:
            found = self._matching(asked, wanted)
            return page_of((one for one in found if ids is None or one.workflow_id in ids), asked)
        if ids is None or len(ids) <= _TERMS:
            return self._cut_out(asked, wanted if ids is None else [*wanted, {"terms": {"workflowId": list(ids)}}])
        total, page = 0, list[Document]()
        whole, all_ids = attrs.evolve(asked, start=0, size=asked.start + asked.size), list(ids)
        for at in range(0, len(all_ids), _TERMS):
            counted, more = self._cut_out(whole, [*wanted, {"terms": {"workflowId": all_ids[at : at + _TERMS]}}])
            total += counted
            page = page_of([*page, *more], whole)[1]
        return total, page[asked.start :]

    def _ids_with(self, asked: Asked) -> set[str]:
        """The executions that have an attempt that answers."""
        wanted, exact = filters(asked)
        if not exact:
            return {one.workflow_id for one in self._matching(asked, wanted)}
        return set(self._ids({"bool": {"filter": wanted}}, None))

    def _matching(self, asked: Asked, wanted: list[Json]) -> Iterator[Document]:
        """Return the documents that answer a search of which a server can answer only a part."""
        hits = self._walk(self._name, {"bool": {"filter": wanted}}, _IDENTIFYING, {})
        return (document for document in (document_of(hit["_source"]) for hit in hits) if matches(document, asked))

    def _cut_out(self, asked: Asked, wanted: list[Json]) -> tuple[int, list[Document]]:
        """How many documents answer, and those of the page."""
        shallow = asked.start + asked.size <= _PAGE
        sort, hidden = order(asked), {"excludes": ["values", "words"]}
        body: Json = {"query": {"bool": {"filter": wanted}}, "track_total_hits": True, "_source": hidden, "sort": sort, "size": 0}
        body |= {"from": asked.start, "size": asked.size} if shallow else {}
        found = self._search(self._name, body)["hits"]
        total: int = found["total"]["value"]
        hits = found["hits"]
        if not shallow and asked.start < total:
            walk = self._walk(self._name, body["query"], sort, hidden, skipped=asked.start)
            hits = list(islice(walk, asked.size))
        return total, [document_of(hit["_source"]) for hit in hits]

    def _walk(self, place: str, query: Json, sort: list[Json], shown: Json, *, skipped: int = 0) -> Iterator[Json]:
        """Every document that answers from one on, in an order in which no two are alike."""
        after: list[Any] | None = None
        while True:
            size = min(_PAGE, skipped) or 1_000
            body: Json = {"query": query, "sort": sort, "size": size, "_source": False if skipped else shown}
            if after is not None:
                body["search_after"] = after
            hits = self._search(place, body)["hits"]["hits"]
            if skipped:
                skipped -= size
            else:
                yield from hits
            if len(hits) < size:
                return
            after = hits[-1]["sort"]

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids greater than `after` of up to `limit` executions of which anything is known."""
        return list(islice(self._ids({"match_all": {}}, after or None, limit), limit))

    def _ids(self, query: Json, after: str | None, limit: int = _PAGE) -> Iterator[str]:
        """The ids of executions, ascending."""
        size = min(limit, _PAGE)
        while True:
            ids: Json = {"size": size, "sources": [{"id": {"terms": {"field": "workflowId"}}}]}
            if after is not None:
                ids["after"] = {"id": after}
            body = {"size": 0, "track_total_hits": False, "query": query, "aggs": {"ids": {"composite": ids}}}
            found = [bucket["key"]["id"] for bucket in self._search(self._name, body)["aggregations"]["ids"]["buckets"]]
            yield from found
            if len(found) < size:
                return
            after = found[-1]

    def documents(self, workflow_id: str) -> Sequence[Document]:
        """All that is known of an execution."""
        hits = self._walk(self._name, {"term": {"workflowId": workflow_id}}, _IDENTIFYING, {})
        return [document_of(hit["_source"]) for hit in hits]

    def _search(self, place: str, body: Json) -> Any:
        return self._asked("POST", f"/{place}/_search", body=body)[1]

    # -- requests ------------------------------------------------------------------------------------------------------

    def _asked(
        self,
        method: str,
        path: str,
        *,
        parameters: Json | None = None,
        body: Json | None = None,
        lines: str | None = None,
        allowed: Sequence[int] = (),
        but: str = "",
    ) -> tuple[int, Any]:
        """The status and the answer of the server; statuses of failures only if `allowed`, and if their type is `but`."""
        if self._closed:
            raise EngineClosed("the index was closed")
        text = lines if body is None else json.dumps(body)
        status, answer = self._ask(method, path, parameters or {}, text, lines is not None)
        if status < 300 or (status in allowed and (not but or _type(answer) == but)):
            return status, answer
        problem = f"{self._name}: {_problem(answer)}"
        if status in (401, 403):
            raise AccessDenied(f"the server refuses the account: {problem}")
        if status == 404:
            raise StorageCorrupt(f"there is no such index: {problem}")
        raise StorageUnavailable(problem) if status in (429, 502, 503, 504) else StorageError(problem)

    def close(self) -> None:
        """Close the client; idempotent."""
        self._closed = True
        self._client.close()


def _refused(identity: str, lines: Sequence[str], answer: Any) -> list[str]:
    """The lines that a server was too busy for; raises when it did not take one for another reason."""
    if "items" not in answer:
        raise StorageCorrupt(f"there is no index {identity}: {_problem(answer)}")
    again = []
    for line, item in zip(lines, answer["items"], strict=True):
        [done] = item.values()
        status = done["status"]
        if status == 429:
            again.append(line)
        elif status == 404 and "error" in done:
            raise StorageCorrupt(f"there is no index {identity}: {_problem(done)}")
        elif status not in (404, 409) and "error" in done:  # what is later than this is there, or it is not
            raise StorageError(f"{identity} does not take a document: {_problem(done)}")
    return again


def _key(workflow_id: str, place: tuple[str, int] | None) -> str:
    """The id of a document: a server takes none of more than 512 bytes."""
    return hashlib.sha256(json.dumps([workflow_id, *(place or ())]).encode()).hexdigest()


def _line(value: Json) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def _action(name: str, key: str, version: int) -> str:
    return _line({name: {"_id": key, "version": version, "version_type": "external_gte"}})


def _cut(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines in requests that a server takes."""
    batch: list[str] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == _ACTIONS or size + len(line) > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    yield batch


def _type(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, Mapping) else None
    return str(error.get("type", "")) if isinstance(error, Mapping) else ""


def _problem(answer: Any) -> str:
    """Return the problem that a server reports."""
    error = answer.get("error", answer) if isinstance(answer, Mapping) else answer
    if isinstance(error, Mapping):
        causes = error.get("root_cause") or [error]
        error = f"{causes[0].get('type', '')}: {causes[0].get('reason', '')}"
    return str(error)[:500]


def _client_of(place: Place) -> Any:
    """The client of a URL."""
    timeout = place.number("timeout", 10, "seconds")
    tls = place.options.get("tls", "false").lower()
    if tls not in ("true", "false"):
        raise InvalidInput(f"{place.shown}: tls is true or false, not {tls!r:.80}")
    if "ca" in place.options and tls == "false":
        raise InvalidInput(f"{place.shown}: ca goes with tls=true")
    options: Json = {"max_retries": 2, "retry_on_timeout": False}
    options |= {"ca_certs": place.options["ca"]} if "ca" in place.options else {}
    account = (place.user, place.password or "") if place.user is not None else None
    if place.scheme == "elasticsearch":
        hosts = [f"{'https' if tls == 'true' else 'http'}://{_written(host)}:{port}" for host, port in place.hosts]
        return _elasticsearch().Elasticsearch(hosts, basic_auth=account, request_timeout=timeout, **options)
    try:
        import opensearchpy
    except ImportError:
        raise MissingExtra("opensearch", "an index in OpenSearch") from None
    named = [{"host": host, "port": port} for host, port in place.hosts]
    return opensearchpy.OpenSearch(named, http_auth=account, use_ssl=tls == "true", timeout=timeout, **options)


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _elasticsearch() -> Any:
    try:
        import elasticsearch
    except ImportError:
        raise MissingExtra("elasticsearch", "an index in Elasticsearch") from None
    return elasticsearch


def _asking(client: Any) -> Ask:
    """How requests are handed to a client, which raises for every status past 299."""
    if type(client).__module__.partition(".")[0] == "opensearchpy":
        return _asking_opensearch(client)
    if not hasattr(client, "perform_request"):
        raise InvalidInput(f"{type(client).__name__} is no client of Elasticsearch or OpenSearch")
    elasticsearch = _elasticsearch()

    def ask(method: str, path: str, parameters: Json, body: str | None, lines: bool) -> tuple[int, Any]:
        # What each server of these years understands, whatever the version of the client is.
        kinds = [f"application/vnd.elasticsearch+{one}; compatible-with=8" for one in ("json", "x-ndjson" if lines else "json")]
        headers = dict(zip(("accept", "content-type"), kinds, strict=True)) if body is not None else {"accept": kinds[0]}
        try:
            answer = client.perform_request(method, path, params=parameters, headers=headers, body=body)
        except elasticsearch.UnsupportedProductError as error:
            raise InvalidInput(f"this is no Elasticsearch: {error.message}") from error
        except elasticsearch.ApiError as error:
            return error.meta.status, error.body
        except elasticsearch.TransportError as error:
            raise StorageUnavailable(f"Elasticsearch cannot be reached: {error}") from error
        return answer.meta.status, answer.body

    return ask


def _asking_opensearch(client: Any) -> Ask:
    import opensearchpy

    def ask(method: str, path: str, parameters: Json, body: str | None, lines: bool) -> tuple[int, Any]:
        headers = {"content-type": f"application/{'x-ndjson' if lines else 'json'}"}
        try:
            return 200, client.transport.perform_request(method, path, params=parameters, body=body, headers=headers)
        except opensearchpy.TransportError as error:
            if isinstance(error.status_code, int):
                return error.status_code, error.info
            raise StorageUnavailable(f"OpenSearch cannot be reached: {error}") from error

    return ask
