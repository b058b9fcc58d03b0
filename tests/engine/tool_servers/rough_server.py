"""A server of the older protocol, in a few lines of the standard library, that behaves as the words after it say."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE, *WORDS = sys.argv[1:]
SCHEMA = {"type": "object", "properties": {}}
REQUESTS: dict[str, dict[str, Any]] = {
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "elicitation/create": {"message": "Who?", "requestedSchema": SCHEMA},
    "roots/list": {},
}


def send(**message: Any) -> None:
    """A message to the client."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(method: str) -> dict[str, Any]:
    """What the client answers to a request of the server."""
    send(id=method, method=method, params=REQUESTS[method])
    answer: dict[str, Any] = {}
    while answer.get("id") != method:
        answer = json.loads(sys.stdin.readline())
    return answer


def tools(cursor: str | None) -> dict[str, Any]:
    """A page of tools; `many` has two pages with more than anybody is told of."""
    if MODE == "many" and cursor is None:
        large = {"name": "large", "inputSchema": SCHEMA | {"description": "x" * 70_000}}
        page = [{"name": f"tool{number}", "inputSchema": SCHEMA} for number in range(100)]
        return {"tools": [large, page[0], *page], "nextCursor": "more"}
    numbers = range(100, 150) if MODE == "many" else range(1)
    return {"tools": [{"name": f"tool{number}", "inputSchema": SCHEMA} for number in numbers]}


def call() -> dict[str, Any]:
    """What the one tool answers."""
    if MODE == "asks":
        codes = [ask(each).get("error", {}).get("code") for each in REQUESTS]
        return {"content": [{"type": "text", "text": json.dumps(codes)}]}
    if MODE == "strange":
        return {"content": "no list"}
    return {"content": [{"type": "text", "text": "fine"}]}


def discovered() -> dict[str, Any]:
    """What a server of the newest protocol says of itself."""
    return {
        "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete", "ttlMs": 0,
        "cacheScope": "private",
    }  # fmt: skip


def serve() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        match asked.get("method"):
            case "server/discover" if MODE == "strict":
                sys.exit(1)
            case "server/discover" if MODE == "modern":
                send(id=asked["id"], result=discovered())
            case "tools/list" if MODE == "modern":
                send(
                    id=asked["id"], result=tools(None) | {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
                )
            case "initialize" if MODE in ("modern", "refuses"):
                send(id=asked["id"], error={"code": -32601, "message": "What is that?"})
            case "initialize":
                capabilities = {"tools": {"listChanged": True}}
                information = {"name": "rough", "version": "0"}
                version = asked["params"]["protocolVersion"]
                send(
                    id=asked["id"],
                    result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": information},
                )
            case "tools/list":
                send(id=asked["id"], result=tools((asked.get("params") or {}).get("cursor")))
            case "tools/call" if MODE == "hangs":
                pass
            case "tools/call":
                send(id=asked["id"], result=call())
            case _ if "id" in asked:
                send(id=asked["id"], error={"code": -32601, "message": "Unknown method"})


def main() -> None:
    """Behave as the mode says, before serving or in its place."""
    match MODE:
        case "deaf":
            sys.stdin.read()
        case "dies":
            sys.stderr.write(f"cannot go on: {' '.join(WORDS)}\n")
            sys.exit(3)
        case "floods":
            while True:
                sys.stdout.write("x" * 100_000)
        case "greets":
            sys.stdout.write("Welcome! Listening on stdio.\n")
        case "hangs":
            Path(WORDS[0]).write_text(str(os.getpid()), encoding="utf-8")
        case "stays":  # whatever happens, with a child
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            Path(WORDS[0]).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    serve()
    if MODE == "stays":
        time.sleep(600)


if __name__ == "__main__":
    main()
