"""Send the same requests to a real Conductor server and to ours, and compare statuses and bodies; see README.md.

python tests/conductor/rest.py [--only PATTERN] [--server URL] [--patience SECONDS] [--report FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import attrs

sys.path.insert(0, str(Path(__file__).parent))

import bindings
import httpx
import rest_stories
import server as servers
from cases import OWN
from rest_requests import Request, Story
from snapshots import Difference

from conductorlite import SystemClock
from conductorlite.testing.server import ConductorServer

FILE: Final = bindings.FILE.with_name("rest.toml")
_ABSENT: Final = "absent"

#: Numbers and texts that are instants or spans.
_TIMES: Final = re.compile(r".*(Time|At)$|lastRetriedTime|createTime")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ID: Final = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
#: Answers that tell of everybody's: only what is the story's own is compared.
_SHARED: Final = re.compile(
    r"/api/(metadata/(workflow|taskdefs)(/names|/names-and-versions|/latest-versions)?|event|event/execution|scheduler/.*"
    r"|tasks/queue/all(/verbose)?|tasks/queue/polldata/all|tasks/search.*|workflow/search.*|admin/queues)$"
)


@attrs.frozen
class Answer:
    """What a server said, without what no two servers say alike."""

    status: int
    media: str
    body: Any


@attrs.frozen
class Finding:
    """A difference between the answers to one request, and what it is bound to."""

    story: str
    request: str
    difference: Difference
    binding: bindings.Binding | None


class Side:
    """One server, asked the requests of a story."""

    def __init__(self, url: str, own: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=60, follow_redirects=False)
        self._own = own
        #: What earlier answers are kept under, and ids by the order in which they were seen.
        self._kept: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def close(self) -> None:
        self._http.close()

    def ask(self, request: Request) -> Answer:
        """Send a request; what is to be kept of the answer is."""
        body = request.body
        content = body if isinstance(body, bytes) else None if body is None else self._filled(json.dumps(body)).encode()
        headers = {} if content is None else {"content-type": "application/json"}
        answer = self._http.request(request.method, self._filled(request.path), content=content, headers=headers)
        if request.keep:
            self._keep(request.keep, answer)
        return self._told(request, answer)

    def _filled(self, text: str) -> str:
        for name, value in self._kept.items():
            text = text.replace(f"{{{name}}}", value)
        return text.replace("\\u00a7", self._own).replace(OWN, self._own)

    def _keep(self, name: str, answer: httpx.Response) -> None:
        said: Any = answer.text
        if said[:1] in ("[", "{") and answer.is_success:
            said = answer.json()
            said = said[0] if isinstance(said, list) and said else said
            said = said.get("taskId") if isinstance(said, dict) else None
        if isinstance(said, str) and answer.is_success and said:
            self._kept[name] = said
            self._ids.setdefault(said, f"<{name}>")

    def _told(self, request: Request, answer: httpx.Response) -> Answer:
        media = answer.headers.get("content-type", "").replace(" ", "").lower()
        if not media.startswith("application/json") or not answer.text:
            return Answer(answer.status_code, media, self._plain(answer.text))
        value = self._without_times(answer.json())
        if _SHARED.match(request.path.partition("?")[0]) and answer.is_success:
            value = self._mine(value)
        return Answer(answer.status_code, media, json.loads(self._plain(json.dumps(value, ensure_ascii=False))))

    def _plain(self, text: str) -> str:
        for known, label in self._ids.items():
            text = text.replace(known, label)
        return _ID.sub("<id>", text.replace(self._own, OWN))

    def _mine(self, value: Any) -> Any:
        """Of a list, a page or a map by name, what is the story's own."""
        if isinstance(value, list):
            mine = [each for each in value if self._own in json.dumps(each)]
            return sorted(mine, key=_named) if all(isinstance(each, dict) for each in mine) else mine
        if isinstance(value, dict) and isinstance(value.get("results"), list):
            mine = self._mine(value["results"])
            others = len(value["results"]) - len(mine)
            return {**value, "results": mine, "totalHits": value["totalHits"] - others if not others else len(mine)}
        return {name: each for name, each in value.items() if self._own in name} if isinstance(value, dict) else value

    def _without_times(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self._without_times(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self._without_times(each, name) for each in value]
        if isinstance(value, str):
            return "<time>" if _ISO.fullmatch(value) else value
        timed = isinstance(value, int) and not isinstance(value, bool) and _TIMES.fullmatch(name)
        return "<time>" if timed and (value > 10**11 or name in ("executionTime", "queueWaitTime")) else value


def _named(one: dict[str, Any]) -> tuple[str, int]:
    """What lists of definitions and results are sorted by: their order is nobody's promise."""
    return str(one.get("name") or one.get("workflowType")), one.get("version", 0)


def differences(server: Any, here: Any, path: str) -> Iterator[Difference]:
    """Every place where two answers differ; absent, null and empty are three things."""
    if isinstance(server, dict) and isinstance(here, dict):
        for key in [*server, *(key for key in here if key not in server)]:
            yield from differences(server.get(key, _ABSENT), here.get(key, _ABSENT), f"{path}.{key}")
    elif isinstance(server, list) and isinstance(here, list) and len(server) == len(here):
        for index, (one, other) in enumerate(zip(server, here, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif type(server) is not type(here) or server != here:
        yield Difference(path, server, here)


def compared(server: Answer, here: Answer) -> list[Difference]:
    """How two answers differ: where the statuses do, the bodies have nothing in common."""
    if server.status != here.status:
        return [Difference("status", _short(server), _short(here))]
    media = [Difference("media", server.media, here.media)] if server.media != here.media else []
    return [*media, *differences(server.body, here.body, "body")]


def _short(answer: Answer) -> str:
    body = answer.body.get("message", answer.body) if isinstance(answer.body, dict) else answer.body
    return f"{answer.status} {body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)}"[:300]


def told(story: Story, there: Side, here: Side, known: bindings.Bindings, patience: float) -> list[Finding]:
    """A story told to both; what only reads is asked again until the answers agree, for a while."""
    findings = []
    for number, request in enumerate(story.requests):
        found = compared(there.ask(request), here.ask(request))
        until = time.monotonic() + patience
        while request.method == "GET" and "/poll/" not in request.path and found and time.monotonic() < until:
            if all(known.find(story.name, _line(request), each) for each in found):
                break
            time.sleep(0.2)
            found = compared(there.ask(request), here.ask(request))
        shown = _line(request)
        findings += [Finding(f"{story.name}#{number}", shown, each, known.find(story.name, shown, each)) for each in found]
    return findings


def _line(request: Request) -> str:
    body = request.body.decode("latin-1") if isinstance(request.body, bytes) else json.dumps(request.body, ensure_ascii=False)
    return f"{request.method} {request.path}{'' if request.body is None else f' {body:.200}'}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print what nothing binds, and the counts; 1 if there is anything unbound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="stories whose name this regular expression is found in")
    parser.add_argument("--server", help="the API of a server that runs already, with its scheduler; none is started")
    parser.add_argument("--patience", type=float, default=3.0, help="seconds until a server that is not what we are is different")
    parser.add_argument("--report", type=Path, help="write every difference, one JSON object a line")
    options = parser.parse_args(arguments)
    known = bindings.read(FILE.read_text(encoding="utf-8"))
    told_of = [story for story in rest_stories.stories() if re.search(options.only, story.name)]
    starting = nullcontext(options.server) if options.server else servers.running("--conductor.scheduler.enabled=true")
    findings: list[Finding] = []
    with starting as base, ConductorServer(clock=SystemClock()) as ours:
        for number, story in enumerate(told_of):
            own = f"k{int(time.time() * 10) % 10**9:x}x{number}x"
            there, here = Side(base.removesuffix("/api"), own), Side(ours.url, own)
            try:
                findings += told(story, there, here, known, options.patience)
            finally:
                there.close()
                here.close()
            print(f"\r{number + 1}/{len(told_of)} {story.name:60.60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for each in findings:
        if each.binding is None:
            print(f"UNBOUND {each.story} {each.request}\n        {each.difference}")
    print(_counts(told_of, findings))
    if options.report:
        options.report.write_text("".join(f"{_json(each)}\n" for each in findings), encoding="utf-8")
    return 1 if any(each.binding is None for each in findings) else 0


def _counts(told_of: Sequence[Story], findings: Sequence[Finding]) -> str:
    """How many requests were answered alike, save for what is bound, or not."""
    worst: dict[str, str] = {}
    for each in findings:
        kind = "unbound" if each.binding is None else "defect" if each.binding.defect else "row"
        worst[each.story] = max(worst.get(each.story, ""), kind, key=("", "row", "defect", "unbound").index)
    count = Counter(worst.values())
    asked = sum(len(story.requests) for story in told_of)
    rows = Counter(each.binding.name for each in findings if each.binding is not None)
    lines = [
        f"{asked} requests: {asked - len(worst)} answered alike, {count['row']} but for rows, {count['defect']} for defects of "
    ]
    lines[0] += f"the server, {count['unbound']} otherwise"
    return "\n".join(itertools.chain(lines, (f"{number:6} {name}" for name, number in rows.most_common())))


def _json(each: Finding) -> str:
    found = attrs.asdict(each.difference) | {"story": each.story, "request": each.request}
    return json.dumps({**found, "bound": each.binding and each.binding.name}, ensure_ascii=False, default=str)


if __name__ == "__main__":
    sys.exit(main())
