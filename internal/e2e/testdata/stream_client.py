"""Reads a product's stream as Python clients of the hosted service do.

    TOKEN=KEY python3 stream_client.py STREAM_URL PRODUCT_ID

Such clients are made of httpx and httpx_sse; this one behaves like them and
needs nothing but the standard library. It prints each payload on standard
output, as one line of JSON with every field it knows, and what else happens as
a line of JSON on standard error. It ends when a payload is not as it must be,
and when the server refuses the stream.
"""

import codecs
import http.client
import json
import os
import sys
import time
import urllib.parse

TIMEOUT = 30  # seconds of silence; heartbeats are closer together

ACTION = {
    "type": str,
    "title": str,
    "description": str,
    "raw_url": str,
    "canonical_url": str,
    "index": int,
    "timestamp_start": float,
    "timestamp_end": float,
    "session_id": str,
    "user_id": str,
    "email": str,
    "conversation_id": (str, None),
}
PAYLOADS = {
    "actions": {
        "product_id": str,
        "session_id": str,
        "user_id": str,
        "email": str,
        "conversation_id": (str, None),
        "count": int,
        "forwarded_at": float,
        "actions": [ACTION],
    },
    "summary": {
        "product_id": str,
        "session_id": str,
        "summary": str,
        "replaces": int,
        "forwarded_at": float,
    },
}


class Malformed(Exception):
    """A payload that is not as it must be."""


class Refused(Exception):
    """The server answers something else than a stream."""


def parse(value, kind, where):
    """Returns the value, without fields that are not known."""
    if isinstance(kind, tuple):  # may be left out
        return None if value is None else parse(value, kind[0], where)
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            raise Malformed(f"{where} is no object: {value!r}")
        return {name: parse(value.get(name), k, f"{where}.{name}") for name, k in kind.items()}
    if isinstance(kind, list):
        if not isinstance(value, list):
            raise Malformed(f"{where} is no array: {value!r}")
        return [parse(v, kind[0], f"{where}[{i}]") for i, v in enumerate(value)]
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise Malformed(f"{where} is no {kind.__name__}: {value!r}")
    return value


def parse_payload(payload):
    """Returns the payload, or None for one of a type that is not known."""
    kind = payload.get("type") if isinstance(payload, dict) else None
    if kind not in PAYLOADS:
        return None
    parsed = parse(payload, PAYLOADS[kind], kind)
    if kind == "actions" and parsed["count"] != len(parsed["actions"]):
        raise Malformed(f"count is {parsed['count']}, there are {len(parsed['actions'])} actions")
    return {"type": kind, **parsed}


def lines(response):
    """Yields the lines of the body. Before version 0.4.2 of httpx_sse everything
    ends a line that Unicode knows to end one, so here it does, too."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = ""
    while chunk := response.read1(64 << 10):
        *whole, text = (text + decoder.decode(chunk)).splitlines(keepends=True) + [""]
        if whole and (whole[-1].endswith("\r") or whole[-1].splitlines()[0] == whole[-1]):
            text = whole.pop()  # its end has not come yet
        for line in whole:
            yield line.splitlines()[0]


def events(response):
    """Yields name and data of each event."""
    name, data, last_id, retry = "", [], "", None
    for line in lines(response):
        if not line:
            if name or data or last_id or retry is not None:
                yield name or "message", "\n".join(data)
            name, data, retry = "", [], None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            last_id = value
        elif field == "retry" and value.isdecimal():
            retry = int(value)


def connect(url, token):
    """Returns the response that is the stream."""
    parts = urllib.parse.urlsplit(url)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    connection = kinds[parts.scheme](parts.netloc, timeout=TIMEOUT)
    path = parts.path + ("?" + parts.query if parts.query else "")
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream", "Cache-Control": "no-store"}
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    kind = response.headers.get_content_type()
    if response.status != 200 or kind != "text/event-stream":
        challenge = response.headers.get("WWW-Authenticate")
        raise Refused(response.status, kind, challenge, response.read().decode())
    return response


def note(what, **details):
    print(json.dumps({"note": what, **details}), file=sys.stderr, flush=True)


def handle(name, data):
    """Prints the payload of an event, if it has one."""
    if name == "heartbeat":
        return note("heartbeat")
    try:
        payload = json.loads(data)
    except json.JSONDecodeError:
        return note("no JSON", event=name, data=data)
    parsed = parse_payload(payload)
    if parsed is None:
        return note("ignored", event=name, data=data)
    print(json.dumps(parsed), flush=True)


def main(stream_url, product_id):
    url = f"{stream_url.rstrip('/')}/stream/{product_id}"
    delay = 1
    while True:
        try:
            with connect(url, os.environ["TOKEN"]) as response:
                note("connected")
                delay = 1
                for name, data in events(response):
                    handle(name, data)
                note("ended")
        except Refused as refused:
            status, kind, challenge, body = refused.args
            note("refused", status=status, kind=kind, challenge=challenge, body=body)
            sys.exit(1)
        except Malformed as malformed:
            note("malformed", why=str(malformed))
            sys.exit(1)
        except (OSError, http.client.HTTPException) as error:
            note("lost", why=repr(error))
        time.sleep(delay)
        delay *= 2


main(*sys.argv[1:])
