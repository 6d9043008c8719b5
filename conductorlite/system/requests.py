"""What an HTTP task asks for: its input, read and checked, before anything is sent.

Source of the rule: Conductor's HttpTask.Input. No message here quotes the value of a header: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import attrs

from conductorlite.canonical import canonical
from conductorlite.definitions import step_path
from conductorlite.errors import TaskFailedTerminally

__all__ = ["Request", "decoder_of", "read_request"]

_TIMEOUT_MS: Final = 3_000

#: Longest single timeout, ms: a day. Beyond it somebody has mistaken the unit.
_LONGEST_MS: Final = 86_400_000

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD: Final = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)

#: Headers whose values no message may hold, whoever wrote it.
_PASSWORDS: Final = ("authorization", "proxy-authorization", "cookie")

#: Encodings a text may have. Not every codec of Python's: some are no encodings, and some take quadratic time.
_ENCODINGS: Final = re.compile(
    r"utf-?(8|16|32)([-_]?[lb]e)?|us-ascii|ascii|(iso-?8859|windows)-?\d+|latin-?1|cp\d+|koi8-[ru]|gbk|gb2312|gb18030|big5"
    r"|shift[-_]jis|euc-(jp|kr)",
    re.IGNORECASE,
)


@attrs.frozen(kw_only=True, slots=True)
class Request:
    """One HTTP request, ready to be sent. Timeouts in ms; `host` is what messages call it by; `hidden` is never to be told."""

    method: str
    uri: str
    host: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None
    connection_timeout_ms: int
    read_timeout_ms: int
    hidden: tuple[str, ...] = attrs.field(default=(), repr=False)


def read_request(given: Mapping[str, Any]) -> Request:
    """The request in an HTTP task's input; raises TaskFailedTerminally naming the path of every problem."""
    nested = given.get("http_request")
    path = "$" if nested is None else "$.http_request"
    problems: list[str] = []
    if nested is not None and not isinstance(nested, Mapping):
        raise TaskFailedTerminally(f"{path}: is not an object")
    fields = given if nested is None else nested
    uri, host, hidden = _uri(fields.get("uri"), f"{path}.uri", problems)
    headers = _headers(fields.get("headers"), f"{path}.headers", problems)
    there = {name.lower(): value for name, value in headers}
    if "accept" not in there:
        headers.append(("Accept", _accept(fields.get("accept"), f"{path}.accept", problems)))
    content_type = there.get("content-type") or _content_type(fields.get("contentType"), f"{path}.contentType", problems)
    body = _body(fields.get("body"), content_type, path, problems)
    if body is not None and "content-type" not in there:
        headers.append(("Content-Type", content_type))
    request = Request(
        method=_method(fields.get("method"), f"{path}.method", problems),
        uri=uri,
        host=host,
        headers=tuple((name.encode(), _encoded(value)) for name, value in headers),
        body=body,
        connection_timeout_ms=_timeout(fields.get("connectionTimeOut"), f"{path}.connectionTimeOut", problems),
        read_timeout_ms=_timeout(fields.get("readTimeOut"), f"{path}.readTimeOut", problems),
        hidden=(*hidden, *(text for name in _PASSWORDS if (text := there.get(name)))),
    )
    if problems:
        raise TaskFailedTerminally("; ".join(problems))
    return request


def decoder_of(content_type: str) -> str | None:
    """The encoding a content type names, `utf-8` when it names none; None for one that is not known here."""
    found = _CHARSET.search(content_type)
    if found is None:
        return "utf-8"
    return found[1] if _ENCODINGS.fullmatch(found[1]) else None


def _uri(uri: Any, path: str, problems: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """The address, the host as messages name it, and the password in it."""
    if uri is None or uri == "":
        problems.append(f"{path}: is missing: HTTP needs it")
        return "", "", ()
    try:
        parts = urlsplit(uri.strip()) if isinstance(uri, str) else None
        port = parts.port if parts is not None else None
    except ValueError:
        parts = port = None
    if parts is None or parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        problems.append(f"{path}: is not the address of a host, beginning with http:// or https://")
        return "", "", ()
    host = parts.hostname if port is None else f"{parts.hostname}:{port}"
    return uri.strip(), host, (parts.password,) if parts.password else ()


def _method(method: Any, path: str, problems: list[str]) -> str:
    if method is None or method == "":
        problems.append(f"{path}: is missing: HTTP needs it")
    elif not isinstance(method, str) or not _TOKEN.fullmatch(method) or method.upper() == "CONNECT":
        problems.append(f"{path}: is no method such as GET or POST")
    else:
        return method.upper()
    return ""


def _headers(headers: Any, path: str, problems: list[str]) -> list[tuple[str, str]]:
    if headers is None:
        return []
    if not isinstance(headers, Mapping):
        problems.append(f"{path}: is not an object")
        return []
    found = []
    for name, value in headers.items():
        if value is None:
            continue
        text = (value if isinstance(value, str) else canonical(value)).strip()
        if not _TOKEN.fullmatch(name):
            problems.append(f"{step_path(path, name)}: is no name of a header")
        elif not _FIELD.fullmatch(text):
            problems.append(f"{step_path(path, name)}: has a character that no header may have")
        elif name.lower() in ("content-length", "transfer-encoding", "connection"):
            problems.append(f"{step_path(path, name)}: is set by the connection itself")
        else:
            found.append((name, text))
    return found


def _accept(accept: Any, path: str, problems: list[str]) -> str:
    accepted = [accept] if isinstance(accept, str) else [] if accept is None else accept
    if not isinstance(accepted, list | tuple) or not all(_line(text) for text in accepted):
        problems.append(f"{path}: is neither a media type nor a list of them")
        return _JSON
    return ", ".join(text.strip() for text in accepted) or _JSON


def _content_type(content_type: Any, path: str, problems: list[str]) -> str:
    if content_type is None or content_type == "":
        return _JSON
    if not _line(content_type):
        problems.append(f"{path}: is no media type")
        return _JSON
    return str(content_type).strip()


def _line(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip()) and _FIELD.fullmatch(text.strip()) is not None


def _body(body: Any, content_type: str, path: str, problems: list[str]) -> bytes | None:
    """The body's bytes. Text is sent as it is; other values are written as the content type says."""
    if body is None:
        return None
    media = content_type.partition(";")[0].strip().lower()
    if isinstance(body, str):
        text = body
    elif media == _FORM and isinstance(body, Mapping):
        return urlencode([pair for name, value in body.items() for pair in _pairs(name, value)]).encode()
    elif media == _JSON or media.endswith("+json"):
        text = canonical(body)
    else:
        problems.append(f"{path}.body: is not text, and only JSON and forms are written as {media or 'that'}")
        return None
    encoding = decoder_of(content_type)
    try:
        return text.encode(encoding or "")
    except (LookupError, UnicodeEncodeError):
        problems.append(f"{path}.body: cannot be written in the charset of {media}")
        return None


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    values = value if isinstance(value, list | tuple) else [value]
    return [(name, one if isinstance(one, str) else canonical(one)) for one in values if one is not None]


def _encoded(value: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()


def _timeout(value: Any, path: str, problems: list[str]) -> int:
    if value is None:
        return _TIMEOUT_MS
    text = value.strip() if isinstance(value, str) else value
    try:
        number = 0 if isinstance(text, bool) else round(float(text))
    except (TypeError, ValueError, OverflowError):
        number = 0
    if not 0 < number <= _LONGEST_MS:
        problems.append(f"{path}: is no number of milliseconds from 1 to {_LONGEST_MS}")
        return _TIMEOUT_MS
    return number
