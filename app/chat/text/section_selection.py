"""What is selected in a text of which only some sections exist as documents."""

from collections.abc import Mapping
from typing import Protocol

from app.chat.text.manuscript import Manuscript
from app.chat.text.message_text import MessageText


class Section(Protocol):
    """A section that exists."""

    @property
    def text(self) -> MessageText:
        """What it is shown in."""


class SectionSelection:
    """Knows that all of a text is selected, however little of it exists, and how the selection is copied."""

    def __init__(self, manuscript: Manuscript, sections: Mapping[int, Section]) -> None:
        """`sections`: those that exist by now, by their numbers."""
        self._manuscript = manuscript
        self._sections = sections
        self.is_whole = False

    @property
    def indices(self) -> list[int]:
        """The sections that exist and in which something is selected, from top to bottom."""
        return sorted(index for index, each in self._sections.items() if each.text.textCursor().hasSelection())

    @property
    def text(self) -> str:
        """What is selected, as it is copied; of a section between that did not exist when it was, its Markdown.

        A whole text of which some does not exist is copied as it was written.
        """
        if self.is_whole and len(self._sections) < self._manuscript.count:
            return self._manuscript.text.strip("\n")
        selected = self.indices
        parts: list[str] = []
        for index in range(min(selected, default=0), max(selected, default=-1) + 1):
            own = self._sections[index].text.selection if index in self._sections else ""
            if parts:
                parts.append(self._manuscript.joint(index))
            parts.append(own or self._manuscript.source(index).strip("\n"))
        return "".join(parts)

    def select_all(self) -> None:
        """Select everything that is there, and what comes to be there."""
        self.is_whole = True
        self.follow()

    def follow(self) -> None:
        """Something was written: where everything is selected, it is too."""
        if self.is_whole:
            for each in self._sections.values():
                each.text.selectAll()

    def clear(self) -> None:
        """Select nothing."""
        self.is_whole = False
        for each in self._sections.values():
            each.text.clear_selection()
