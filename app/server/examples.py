"""Examples of how the local server is asked, ready to be copied."""

import re
import shlex
import subprocess
import sys

from app.system import json_text as json

_QUESTION = "Tell me a story."
# In JSON: a quote ends for cmd.exe what it takes as it is, whatever stands before it. All of this may stand in a name.
_COMMANDS_OF_CMD = re.compile(r"\\.|[&|<>^%!]")


def curl(url: str, key: str, model: str, is_windows: bool = sys.platform == "win32") -> str:
    """On a command line; cmd.exe knows no single quotes and continues lines with another sign."""
    body = _COMMANDS_OF_CMD.sub(_in_hexadecimal, _body(model)) if is_windows else _body(model)
    on, quoted = ("^", _quoted_for_cmd) if is_windows else ("\\", shlex.quote)
    headers = ["Content-Type: application/json", *([f"Authorization: Bearer {key}"] if key else [])]
    lines = [f"curl {url}/v1/chat/completions", *(f"-H {quoted(each)}" for each in headers), f"-d {quoted(body)}"]
    return f" {on}\n  ".join(lines) + "\n"


def _quoted_for_cmd(word: str) -> str:
    return subprocess.list2cmdline([word])


def _in_hexadecimal(found: re.Match[str]) -> str:
    character = found[0].removeprefix("\\")
    return found[0] if found[0][0] == "\\" and character != '"' else f"\\u{ord(character):04x}"


def powershell(url: str, key: str, model: str) -> str:
    """In the shell that a terminal of Windows opens, where `curl` may be another command; it doubles single quotes."""
    body, shown = (text.replace("'", "''") for text in (_body(model), key))
    headers = f" -Headers @{{ Authorization = 'Bearer {shown}' }}" if key else ""
    return (
        f"$answer = Invoke-RestMethod {url}/v1/chat/completions -Method Post{headers} `\n"
        f"  -ContentType 'application/json' -Body '{body}'\n"
        "$answer.choices[0].message.content\n"
    )


def _body(model: str) -> str:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": _QUESTION}]})


def openai_client(url: str, key: str, model: str) -> str:
    """In Python, with the client of OpenAI, which wants some key in any case."""
    return f"""from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key={_text(key or "none")})
answer = client.chat.completions.create(
    model={json.dumps(model)},
    messages=[{{"role": "user", "content": "{_QUESTION}"}}],
    stream=True,
)
for part in answer:
    if part.choices:
        print(part.choices[0].delta.content or "", end="", flush=True)
"""


def anthropic_client(url: str, key: str, model: str) -> str:
    """In Python, with the client of Anthropic, whose base address has no version in it."""
    return f"""from anthropic import Anthropic

client = Anthropic(base_url="{url}", api_key={_text(key or "none")})
with client.messages.stream(
    model={json.dumps(model)},
    max_tokens=1000,
    messages=[{{"role": "user", "content": "{_QUESTION}"}}],
) as answer:
    for text in answer.text_stream:
        print(text, end="", flush=True)
"""


def ollama_client(url: str, key: str, model: str) -> str:
    """In Python, with the client of Ollama."""
    headers = f', headers={{"Authorization": {_text(f"Bearer {key}")}}}' if key else ""
    return f"""from ollama import Client

client = Client(host="{url}"{headers})
messages = [{{"role": "user", "content": "{_QUESTION}"}}]
for part in client.chat(model={json.dumps(model)}, messages=messages, stream=True):
    print(part.message.content, end="", flush=True)
"""


def _text(words: str) -> str:
    """As Python has it."""
    return json.dumps(words, ensure_ascii=False)


SHELLS = {"PowerShell": powershell, "curl": curl} if sys.platform == "win32" else {"curl": curl}
EXAMPLES = SHELLS | {
    "Python: openai": openai_client,
    "Python: anthropic": anthropic_client,
    "Python: ollama": ollama_client,
}
"""By their names in the window."""
