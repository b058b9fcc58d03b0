"""Templates are rendered as transformers renders them, and none of them can hold the engine up."""

import ast
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

import engine
from engine.errors import ModelError
from engine.text import template_renderer
from engine.text.template_renderer import TemplateRefusal, TemplateRenderer
from tests.campaigns.extent import choose
from tests.engine.child import is_running
from tests.engine.text.templates import FAMILIES
from tests.engine.text.tiny_tokenizers import library_tokenizer

TURNS = [
    {"role": "system", "content": "Be “brief” <b>&</b>."},
    {"role": "user", "content": "  Hello \n 🙂 "},
    {"role": "assistant", "content": "<think>hm</think>Hi\x00"},
    {"role": "user", "content": ""},
]
MANNERS = {
    "generation block": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}|{% endfor %}",
    "namespace": "{% set ns = namespace(n=0, self=1) %}"
    "{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "loop controls": "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}"
    "{{ m.role }}{% break %}{% endfor %}",
    "tojson": "{{ messages | tojson }}{{ messages[1] | tojson(indent=2, ensure_ascii=True, sort_keys=True) }}",
    "the date": "{{ strftime_now('%Y') }}",
    "dict": "{{ dict(a=1).items() | list }}{{ dict.fromkeys([1, 2]) }}",
    "white space": "\n  {% if true %}\n    x\n  {% endif %}\n{# nothing #}\n{{ bos_token }}{{ eos_token }}\n",
    "what is missing": "{{ tools is none }}{{ documents is none }}{{ custom is defined }}{{ add_generation_prompt }}",
    "macros": "{% macro turn(m) -%}\n {{ m['role'].upper() }}: {{ m.content | trim }}\n{%- endmacro %}"
    "{% for m in messages[::-1] %}{{ turn(m) ~ loop.index }}{% endfor %}",
}
REFUSALS = [
    "{{ raise_exception('Roles must alternate: 🙂') }}",
    "{% for %}",
    "{{ messages[99].content }}",
    "{{ messages.append(1) }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ dict.__call__.__globals__ }}",
]
ENDLESS = {
    "two loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "one long step": "{{ (10 ** 4300000) | string | length }}",
    "a power": "{% set n = messages | length %}{{ (7 ** (n ** 14)) % 7 }}",
    "a long sum": "{{ messages | map('string') | join | list | batch(1) | list | length }}"
    "{% for i in range(99999) %}{{ range(99999) | sum }}{% endfor %}",
}
HUNGRY = {
    "doubling": "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "doubling with ~": "{% set n = namespace(x='x') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "times": "{{ ('x' * 9999999999) | length }}",
    "a list": "{{ ([0] * 9999999999) | length }}",
    "center": "{{ messages[0].role | center(9999999999) | length }}",
    "ljust": "{{ messages[0].role.ljust(9999999999) | length }}",
    "format": "{{ '{:9999999999}'.format(5) | length }}",
    "percent": "{{ '%9999999999d' % 5 }}",
    "join": "{% set x = 'x' * 99999999 %}{{ [x, x, x, x, x, x, x, x, x] | join | length }}",
    "replace": "{{ ('x' * 99999).replace('x', 'y' * 99999) | length }}",
    "indent": "{{ ('x\n' * 99999) | indent(99999) | length }}",
    "tojson": "{{ ([[1]] * 99999) | tojson(indent=99999) | length }}",
}
LONG = "{% for i in range(99999) %}{{ 'x' * 999 }}{% endfor %}"


@pytest.fixture(scope="module")
def renderer() -> Iterator[TemplateRenderer]:
    renderer = TemplateRenderer(seconds=20)
    yield renderer
    renderer.close()


@pytest.fixture(scope="module")
def strict() -> Iterator[TemplateRenderer]:
    renderer = TemplateRenderer(seconds=0.4, memory_bytes=384 << 20)
    yield renderer
    renderer.close()


def both(template: str, renderer: TemplateRenderer, opens: bool) -> tuple[str, str]:
    """What transformers makes of the turns, and what is made of them here."""
    library = library_tokenizer("byte level", template)
    variables = {"add_generation_prompt": opens, **library.special_tokens_map}
    here = renderer.render(template, TURNS[:2] if "raise_exception" in template else TURNS, variables)
    turns: Any = TURNS[:2] if "raise_exception" in template else TURNS
    return str(library.apply_chat_template(turns, tokenize=False, add_generation_prompt=opens)), here


@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize("name", MANNERS)
def test_what_a_template_writes_is_what_transformers_writes(name: str, opens: bool, renderer: TemplateRenderer) -> None:
    theirs, ours = both(MANNERS[name], renderer, opens)
    assert ours == theirs


@pytest.mark.parametrize("name", [each for each in FAMILIES if "raise_exception" not in FAMILIES[each].template])
def test_a_familys_template_writes_what_it_writes_in_transformers(name: str, renderer: TemplateRenderer) -> None:
    theirs, ours = both(FAMILIES[name].template, renderer, opens=True)
    assert ours == theirs


@pytest.mark.parametrize("template", REFUSALS)
def test_a_refusal_has_the_words_that_it_has_in_transformers(template: str, renderer: TemplateRenderer) -> None:
    library = library_tokenizer("byte level", template)
    with pytest.raises(Exception) as theirs:  # noqa: PT011  # of any kind
        library.apply_chat_template(TURNS, tokenize=False)
    with pytest.raises(TemplateRefusal) as ours:
        renderer.render(template, TURNS, {})
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_without_an_end_is_stopped(name: str, strict: TemplateRenderer) -> None:
    with pytest.raises(ModelError, match=r"stopped: it took longer than 0\.4 seconds") as caught:
        strict.render(ENDLESS[name], TURNS, {})
    assert caught.value.hint


@pytest.mark.parametrize("name", choose(("doubling", "times", "format", "join"), tuple(HUNGRY)))
def test_a_template_that_takes_all_memory_is_stopped(name: str, strict: TemplateRenderer) -> None:
    before = psutil.Process().memory_info().rss
    with pytest.raises(ModelError, match="stopped: it took"):
        strict.render(HUNGRY[name], TURNS, {})
    assert psutil.Process().memory_info().rss < before + (64 << 20)


def test_a_template_that_writes_without_an_end_is_stopped(renderer: TemplateRenderer) -> None:
    with pytest.raises(ModelError, match="stopped: it wrote more than"):
        renderer.render(LONG, TURNS, {})
    long = [{"role": "user", "content": "word " * 400_000}]
    assert renderer.render("{{ messages[0].content }}", long, {}) == long[0]["content"]


def test_the_next_conversation_is_rendered_after_one_that_was_stopped(
    strict: TemplateRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError):
        strict.render(ENDLESS["two loops"], TURNS, {})
    monkeypatch.setattr(strict, "_seconds", 20.0)
    assert strict.render("{{ messages[0].role }}", TURNS, {}) == "system"


def test_a_process_that_somebody_ended_is_started_again(renderer: TemplateRenderer) -> None:
    assert renderer.render("{{ 1 }}", TURNS, {}) == "1"
    assert renderer._child
    renderer._child.send_signal(signal.SIGTERM)
    renderer._child.wait()
    assert renderer.render("{{ 2 }}", TURNS, {}) == "2"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit to take away")
def test_memory_is_watched_where_the_system_does_not_limit_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(engine.__file__).parent / "text" / "template_process.py"
    unlimited = tmp_path / "program.py"
    unlimited.write_text(program.read_text().replace("resource.setrlimit(limit, (most, most))", "pass"))
    monkeypatch.setattr("engine.text.template_renderer.PROGRAM", unlimited)
    renderer = TemplateRenderer(seconds=20, memory_bytes=200 << 20)
    try:
        with pytest.raises(ModelError, match="took more than 200 MiB of memory"):
            renderer.render("{% set x = 'x' * (300 * 2 ** 20) %}" + ENDLESS["two loops"], TURNS, {})
    finally:
        renderer.close()


def test_a_launcher_is_watched_with_the_python_that_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a virtual environment on Windows, which has 5 MB whatever the other one does."""
    python = Mock(**{"memory_info.return_value.rss": 300})
    launcher = Mock(**{"memory_info.return_value.rss": 5, "children.return_value": [python]})
    monkeypatch.setattr(sys, "platform", "linux")
    assert template_renderer._rss_bytes(launcher) == 5
    monkeypatch.setattr(sys, "platform", "win32")
    assert template_renderer._rss_bytes(launcher) == 305


def test_no_other_code_runs_a_template_or_calls_the_tokenizers_library() -> None:
    """A new door would have none of the limits."""
    doors = {"apply_chat_template", "jinja2", "render_jinja_template"}
    library = {"backend_tokenizer", "_tokenizer_object", "tokenizers", "encode_batch_fast", "safe_open"}
    allowed = {
        "text/template_process.py": doors,
        "text/backend.py": library,
        "text/tokenizer_files.py": {"backend_tokenizer"},
        "model/pictures/source.py": {"backend_tokenizer"},  # handed on, with names for special tokens
        "text/gguf_tokenizer.py": {"tokenizers"},  # made inside `no_panic`
        "weights/store/layer_file.py": {"safe_open"},
        "loading/kept/part_file.py": {"safe_open"},  # inside `no_panic`
    }
    root = Path(engine.__file__).parent
    for file in root.rglob("*.py"):
        text, names = file.read_text(encoding="utf-8"), set()
        if not any(name in text for name in doors | library):
            continue  # not worth parsing
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
                    names.add(name)
                case ast.ImportFrom(module=str(module)):
                    names.add(module.split(".")[0])
        found = names & (doors | library)
        assert found <= allowed.get(file.relative_to(root).as_posix(), set()), file


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process as only POSIX does")
def test_a_template_does_not_outlive_an_engine_that_was_killed() -> None:
    script = (
        "from engine.text.template_renderer import TemplateRenderer\n"
        "renderer = TemplateRenderer(seconds=20)\n"
        "renderer.render('x', [], {}); print(renderer._child.pid, flush=True)\n"
        "renderer._seconds = 0.5\n"
        f"renderer.render({ENDLESS['two loops']!r}, [], {{}})"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 60
    while is_running(child):
        assert time.monotonic() < deadline, "it runs on for nobody"
        time.sleep(0.05)
