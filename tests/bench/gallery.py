"""Pictures of the window in every state that ought to be looked at, light and dark, without an engine.

`QT_QPA_PLATFORM=offscreen python -m tests.bench.gallery --to FOLDER [--only NAME] [--language de]`
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.i18n.translation import install
from app.main import build_application
from app.preferences.dialog import PreferencesDialog
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.shell.wiring import connected_window
from app.system.paths import folders_below
from app.ui.notices import Notice, Tone
from app.ui.theme import Theme
from engine.protocol.options import LoadOptions
from tests.app.fake_link import FakeLink

ANSWER = """The **area** of a circle is $A = \\pi r^2$; around it runs

$$ C = \\int_0^{2\\pi} r \\, d\\varphi = 2 \\pi r $$

## In Python

```python
import math

def area(radius: float) -> float:
    \"\"\"Of a circle with this radius.\"\"\"
    return math.pi * radius**2  # the constant has 15 digits
```

| radius | area |
|---|---|
| 1 | 3.14 |
| 2 | 12.57 |

1. Square the radius.
2. Multiply it by `math.pi`.
    - Half of that is a half circle.

> What is measured twice is cut once.
"""


def link_of(window: MainWindow) -> FakeLink:
    """The link that the window was opened with."""
    assert isinstance(window.link, FakeLink)
    return window.link


def empty(_window: MainWindow) -> None:
    """Nothing was asked yet."""


def long_answer(window: MainWindow) -> None:
    """Reasoning, maths, code, a table and lists."""
    window.chat.ask("How large is a circle, and how would I compute it?")
    link_of(window).say("<think>", "The person wants the area and perhaps the length.", "</think>", ANSWER)
    link_of(window).finish()


def branching(window: MainWindow) -> None:
    """Versions of a question and of an answer, one that was cut off, and other chats in folders."""
    for question in ("Plan a garden", "Letters to Anna", "Which tree is that?"):
        window.chat.start_new_chat()
        window.chat.ask(question)
        link_of(window).say("A lime tree, ", "I should think.")
        link_of(window).finish()
    autosave = window.conversations.autosave
    autosave.pin(autosave.records[-1].id, True)
    autosave.move(autosave.records[-1].id, "Letters")
    window.chat.regenerate()
    link_of(window).say("An oak, because")
    link_of(window).finish("length")
    window.chat.edit(window.chat.conversation.messages[0].id, "Which tree stands at the gate?")
    link_of(window).say("Two of them: an oak and")
    link_of(window).finish("length")


def notices(window: MainWindow) -> None:
    """Stacked: an error, an error with a way out, and a hint."""
    window.notices.add(Notice("a", "The engine was killed, perhaps because memory ran out.", action="Restart engine"))
    window.notices.add(Notice("b", "Conversations cannot be saved in chats.sqlite3: disk full.", "Free some space."))
    window.notices.add(Notice("c", "Deleted “Plan a garden”.", action="Undo", tone=Tone.HINT))


def presets(window: MainWindow) -> QWidget:
    """The settings of a conversation, one of two presets chosen."""
    window.open_generation()
    return window.generation


def preferences(page: int) -> Callable[[MainWindow], QWidget]:
    """A page of Preferences."""

    def show(window: MainWindow) -> QWidget:
        window.actions_.preferences.trigger()
        dialog = next(each for each in window.findChildren(PreferencesDialog))
        dialog.list.setCurrentRow(page)
        return dialog

    return show


def palette(window: MainWindow) -> QWidget:
    """Everything with "chat" in its name."""
    branching(window)
    window.actions_.palette.trigger()
    window.tools.palette.field.setText("chat")
    return window.tools.palette


def shortcuts(window: MainWindow) -> QWidget:
    """The list of all shortcuts."""
    window.actions_.shortcuts.trigger()
    return next(each for each in window.findChildren(QWidget) if each.isWindow() and each.isVisible())


STATES: dict[str, Callable[[MainWindow], QWidget | None]] = {
    "empty": empty,
    "long-answer": long_answer,
    "branching": branching,
    "notices": notices,
    "presets": presets,
    "palette": palette,
    "shortcuts": shortcuts,
    **{f"preferences-{page}": preferences(page) for page in range(8)},
}
THEMES = {
    "light": {"theme": "light", "high_contrast": False},
    "dark": {"theme": "dark", "high_contrast": False},
    "contrast": {"theme": "dark", "high_contrast": True},
}


@contextmanager
def opened(theme: Theme, changes: dict[str, object]) -> Iterator[MainWindow]:
    """A window with a pair that is ready."""
    with tempfile.TemporaryDirectory() as data:
        folders = folders_below(Path(data))
        folders.create()
        settings = SettingsFile(folders.settings_file)
        settings.change(
            **changes, presets={"Careful": GenerationSettings(temperature=0.2), "Wild": GenerationSettings()}
        )
        theme.follow(settings.current)
        link = FakeLink()
        window = connected_window(link, settings, folders, theme, LoadOptions())
        window.resize(1320, 820)
        window.show()
        link.become_ready()
        yield window
        window.close()
        window.models.close()


def main() -> None:
    """Take them all, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--only", choices=STATES)
    parser.add_argument("--themes", default="light,dark", help="of light, dark and contrast")
    parser.add_argument("--language", default="en")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    application = build_application()
    install(application, options.language)
    theme = Theme(application)
    for name in [options.only] if options.only else STATES:
        for kind in options.themes.split(","):
            with opened(theme, THEMES[kind]) as window:
                shown = STATES[name](window) or window
                QTest.qWait(1500)  # formulas are drawn in a thread of their own
                shown.grab().save(str(options.to / f"{name}-{kind}.png"))
                if shown is not window:
                    shown.close()


if __name__ == "__main__":
    main()
