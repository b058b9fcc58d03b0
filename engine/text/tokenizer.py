"""A model's tokenizer: text to tokens, tokens to text, and a conversation to the prompt it stands for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.errors import InputError
from engine.picture_tokens import WrittenPicture
from engine.protocol.messages import ChatMessage, TemplateValues
from engine.protocol.sentences import say
from engine.protocol.tools import Tool
from engine.text.backend import BYTE_OF_LETTER, BYTE_OF_TOKEN, REPLACEMENT, Backend, mend_bytes
from engine.text.chat_template import (
    PLAIN_GAP,
    PLAIN_STOP,
    ControlTokens,
    Render,
    parted,
    place_of_answer,
    write_chat,
    write_plain,
)
from engine.text.gguf_tokenizer import build_tokenizer, read_vocabulary
from engine.text.grammars.reasoning_first import Masks
from engine.text.grammars.vocabulary import GrammarVocabulary
from engine.text.infill_marks import Part, find_marks
from engine.text.picture_text import in_parts, marked, with_pictures, with_rows
from engine.text.reasoning import Opening, Reasoning, ReasoningText, signs_of
from engine.text.template_renderer import TemplateRefusal, shared_renderer
from engine.text.tokenizer_files import load_tokenizer, read_end_tokens
from engine.text.tools.formats import CALL_ENDS, HERMES, Format, choose_format
from engine.text.tools.tool_template import (
    QUESTION,
    Functions,
    ToolTemplate,
    Turn,
    function_of,
    probe_template,
)
from engine.text.tools.turns import fitted, in_plain_words, map_message, map_strings, mentions_calls, texts_of

# Texts to encode another text behind, so that it is not taken for the beginning of a text.
LEADS = ("\n", "a", ".")


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """A conversation as tokens: up to where its answer begins, and the answer that is continued, if there is one.

    `thinks`: the answer continues inside the model's reasoning. `shown` is the part of the reasoning that the prompt
    wrote itself: the text of a new answer begins with it.
    """

    opening: list[int]
    answer: list[int]
    thinks: bool = False
    shown: str = ""


@dataclass(frozen=True, slots=True)
class _WrittenChat:
    """The same as text; `seam`: what stands in the names of control tokens that somebody typed."""

    opening: str
    answer: str
    seam: str
    thinks: bool = False
    shown: str = ""


class Tokenizer:
    """The fast tokenizer of a model folder. Ids outside its vocabulary, as a padded model has some, write nothing."""

    def __init__(
        self, library: Any, end_tokens: frozenset[int] = frozenset(), infill: Mapping[Part, int] = MappingProxyType({})
    ) -> None:
        """`library` is a fast tokenizer of transformers; its own end token is added to `end_tokens`.

        `infill`: which tokens stand around a gap, as far as the model's file says so; others are known by their names.
        """
        self._backend = Backend(library)
        self._template = self._backend.template
        self._special_names = self._backend.special_names
        self.vocabulary: Mapping[str, int] = MappingProxyType(self._backend.vocabulary)
        self.eos_ids = end_tokens | self._backend.end_tokens
        added = self._backend.added_tokens
        self._specials: dict[int, str] = {token: entry.content for token, entry in added.items() if entry.special}
        self._names = {
            token: self._backend.name_of(token) for token in set(self.vocabulary.values()) - set(self._specials)
        }
        marks = {entry.content: entry.special for entry in added.values()}
        self._controls = ControlTokens(marks, self._template)
        self.reasoning = Reasoning(marks, self._template)
        self.infill = find_marks({entry.content: token for token, entry in added.items()}, infill)
        is_control = self.reasoning.is_control
        self.call_format = choose_format(self._template, self.vocabulary)
        self.eos_ids |= {token for token, name in self._specials.items() if name in CALL_ENDS}
        self.signs = signs_of(self.reasoning.own, self.vocabulary) if is_control else {}
        self._has_byte_tokens = self._writes_byte_tokens()
        self._lead = self.encode(LEADS[1])
        self._pieces: dict[int, str] = {}
        self.kept_breakers: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}

    @classmethod
    def open(cls, folder: Path) -> "Tokenizer":
        """The tokenizer of a model folder; raises `ModelError` when there is none that can be used."""
        return cls(load_tokenizer(folder), read_end_tokens(folder))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object], name: str) -> "Tokenizer":
        """The tokenizer in a GGUF file's metadata, its lists read; raises `ModelError` when it cannot be used."""
        vocabulary = read_vocabulary(metadata, name)
        return cls(build_tokenizer(vocabulary, name), vocabulary.end_tokens, vocabulary.infill)

    @property
    def library(self) -> Any:
        """The fast tokenizer of transformers behind it, for what reads pictures."""
        return self._backend.library

    @property
    def chat_stop(self) -> tuple[str, ...]:
        """What ends an answer to `encode_chat` besides the end tokens; nothing where the model has a template."""
        return () if self._template else (PLAIN_STOP,)

    @cached_property
    def _wants_parts(self) -> bool:
        """Whether the template loses texts that are not in parts, as some of models that read pictures do."""
        turn: Turn = {"role": "user", "content": QUESTION.content}
        return not self._shows(turn) and self._shows(in_parts(turn, "", is_always=True))

    def _shows(self, question: Turn) -> bool:
        """Whether the template writes the probing question that is put to it in this form."""
        try:
            return QUESTION.content in self._render([question], [])
        except (InputError, TemplateRefusal):
            return False

    @cached_property
    def tool_template(self) -> ToolTemplate | None:
        """How the template is given tools and calls; None where it knows none, and they are put in plain words."""
        return probe_template(self._render, self.call_format.syntax) if self._template else None

    @property
    def tool_format(self) -> Format:
        """How the model is told to write calls; the first time its template is asked, which takes a while."""
        return self.call_format if self.tool_template else HERMES

    @property
    def chat_template(self) -> str:
        """The source of the model's own; empty where it has none."""
        return self._template

    @property
    def special_tokens(self) -> dict[str, int]:
        """The ids of the special tokens, by name."""
        return {name: token for token, name in self._specials.items()}

    @property
    def call_marks(self) -> dict[int, str]:
        """The control tokens that stand around calls of tools, which are no text otherwise."""
        marks = self.tool_format.and_hermes().marks
        return {token: name for token, name in self._specials.items() if name in marks}

    def same_as(self, other: "Tokenizer") -> bool:
        """Whether every id stands for the same token in both."""
        return self.vocabulary == other.vocabulary

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with none added around it; the name of a special token becomes that token."""
        return self._backend.encode(_well_formed(text))

    def encode_raw(self, text: str) -> list[int]:
        """The tokens of a text behind what the tokenizer puts before every one, as a base model expects it."""
        return [*self.opening(), *self.encode(text)]

    def encode_onward(self, text: str) -> list[int]:
        """The tokens of a text that others precede: without the space that some tokenizers put at the beginning."""
        text = _well_formed(text)
        for lead in LEADS:
            before, both = self.encode(lead), self.encode(lead + text)
            if before and both[: len(before)] == before:
                return both[len(before) :]
        return self.encode(text)

    def encode_typed(self, text: str, is_onward: bool = False) -> list[int]:
        """The tokens of a text in which the name of a special token stays text.

        `is_onward`: others precede it, as in `encode_onward`.
        """
        seam = self._controls.choose_seam([text])
        first, *rest = self._controls.broken(text, seam).split(seam)
        begin = self.encode_onward(first) if is_onward else self.encode(first)
        return begin + [token for part in rest for token in self.encode_onward(part)]

    def opening(self) -> list[int]:
        """The tokens that the tokenizer itself puts before every text."""
        framed = self._backend.encode(LEADS[1], framed=True)
        starts = (at for at in range(len(framed)) if framed[at : at + len(self._lead)] == self._lead)
        return list(framed[: next(starts, 0)])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the tokens without special ones, nothing cleaned up; what is no character becomes U+FFFD."""
        ids = [token for token in ids if token in self._names]
        if self._has_byte_tokens:
            return self._backend.join(list(mend_bytes([self._names[token] for token in ids])))
        return self._backend.decode(ids)

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of the tokens, special ones by name; unknown ones write nothing."""
        known = self._names.keys() | self._specials.keys()
        runs = groupby((token for token in ids if token in known), self.writes_text)
        return "".join(self.decode([*run]) if is_text else "".join(map(self.piece, run)) for is_text, run in runs)

    def writes_text(self, token: int) -> bool:
        """Whether the token can appear in decoded text: it is in the vocabulary and not special."""
        return token in self._names

    def is_silent(self, token: int) -> bool:
        """Whether the token adds no text of its own to an answer: it is special, unknown, or ends the answer."""
        return token not in self._names or token in self.eos_ids

    def piece(self, token: int) -> str:
        """One token as it looks inside a text: special ones by name, lone bytes as U+FFFD, unknown ids in brackets."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._describe(token)
        return piece

    def torn_bytes(self, token: int) -> bytes:
        """The bytes of a token that breaks a character; empty for others, and where its name does not tell them."""
        piece = self.piece(token)
        return self._written(self._names[token], piece) if REPLACEMENT in piece and token in self._names else b""

    def writings(self) -> dict[bytes | str, int]:
        """What every token stands for: the bytes that it writes inside a text, or the name of a special one.

        Of tokens that write the same, the one that is in use: a character rather than its byte. Tokens that break a
        character are missing where their names do not tell their bytes.
        """
        found: dict[bytes | str, int] = {name: token for token, name in self._specials.items()}
        for token, written in self._spelled().items():
            found.setdefault(written, token)
        return found

    def written(self) -> dict[int, bytes]:
        """The bytes that every token writes inside a text, special ones their names; without what cannot be told."""
        return self._spelled() | {token: name.encode() for token, name in self._specials.items()}

    @cached_property
    def grammar_vocabulary(self) -> GrammarVocabulary:
        """The tokens as grammars see them; raises `InputError` where no token could end an answer."""
        if not self.eos_ids:
            reason = say("The model has no token that ends an answer, so that no constraint can be kept to.")
            raise InputError(reason, say("Choose another model, or leave the constraint out."))
        return GrammarVocabulary(self._spelled(), self._specials, sorted(self.eos_ids), self)

    @cached_property
    def grammar_masks(self) -> Masks:
        """Sets of tokens for constraints that begin behind reasoning; each is found once for all answers."""
        return Masks(self.grammar_vocabulary)

    def role(self, name: str) -> int | None:
        """The id of the special token of this role, such as `eos_token`, if there is one."""
        return self.vocabulary.get(self._special_names.get(name, ""))

    def encode_chat(
        self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = (), pictures: Sequence[WrittenPicture] = ()
    ) -> list[int]:
        """The prompt for an answer to the last message, written by the model's own chat template.

        What people typed never becomes a control token, whatever it looks like, nor what stands in tools and their
        results. Raises `InputError` when there is nothing to answer or the template refuses the conversation.
        """
        encoded = self.encode_whole(messages, tools, pictures=pictures)
        return [*encoded.opening, *encoded.answer]

    def encode_whole(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Tool] = (),
        values: TemplateValues = (),
        pictures: Sequence[WrittenPicture] = (),
    ) -> EncodedChat:
        """The prompt in two parts, up to where the answer begins and the answer to continue, and its reasoning.

        The first part has the tokens it would have without the second, so what was computed for it can be reused.
        `values` of further variables of the template, by their names. `pictures`: how those of the messages are
        written, in their order.
        """
        written = self._write(messages, tools, values)
        answer = self._encode_answer(written.opening, written.answer, written.seam) if written.answer else []
        opening = self._encode_opening(with_pictures(written.opening, pictures), written.seam)
        return EncodedChat(with_rows(opening, pictures), answer, written.thinks, written.shown)

    def write_whole(
        self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = (), values: TemplateValues = ()
    ) -> str:
        """The prompt as text, without what `encode_raw` puts before every one.

        Names of control tokens that people typed stand in it like those that the template wrote.
        """
        written = self._write(messages, tools, values)
        text = (written.opening + written.answer).replace(written.seam, "")
        return text.removeprefix("".join(map(self.piece, self.opening()))) if self._template else text

    def _write(self, messages: Sequence[ChatMessage], tools: Sequence[Tool], values: TemplateValues) -> _WrittenChat:
        formed = [map_message(message, _well_formed) for message in messages]
        has_pictures = any(message.pictures for message in formed)
        mark = self._controls.choose_seam(each for one in formed for each in texts_of(one)) if has_pictures else ""
        messages, functions = self._with_tools([marked(message, mark) for message in formed], tools)
        texts = [text for message in messages for text in texts_of(message)]
        values = tuple((name, map_strings(value, _well_formed)) for name, value in values)
        seam = self._controls.choose_seam([*texts, json.dumps([functions, values], ensure_ascii=False)])
        functions = map_strings(functions, lambda text: self._controls.broken(text, seam))
        values = tuple(
            (name, map_strings(value, lambda text: self._controls.broken(text, seam))) for name, value in values
        )
        said = [self.reasoning.look_back(message) for message in messages[:-1]] + messages[-1:]
        asked, begun = parted([self._controls.break_up(message, seam) for message in said])
        if self._template:
            opening = self.reasoning.opening(write_chat(asked, self._renderer(functions, values, mark)))
        else:
            opening = Opening(write_plain(asked))
        if not begun:
            return _WrittenChat(opening.text, "", seam, opening.marks is not None, opening.shown)
        thought, answer = self._divide(messages[-1], opening, seam)
        before, between = opening.text, ""
        written = self.reasoning.write_on(opening, thought, answer)
        if written is None:
            written, between = begun, PLAIN_GAP
            if self._template:
                finished = self._renderer(functions, values, mark, add_generation_prompt=False)
                before, between = self._place_answer(asked, opening.text, seam, finished)
        text = written if written[:1].isspace() else f"{between}{written}"
        return _WrittenChat(before, text, seam, bool(thought and thought.is_open))

    def _divide(self, message: ChatMessage, opening: Opening, seam: str) -> tuple[ReasoningText | None, str]:
        """The thought and the answer of what the model said so far, with a seam in every control token."""
        is_own = opening.marks in (None, self.reasoning.own)
        marks = self.reasoning.shown if is_own or opening.marks is None else opening.marks
        thought, answer = self.reasoning.divide(message.content, marks)

        def broken(text: str) -> str:
            return self._controls.break_up(ChatMessage("assistant", text), seam).content

        return (ReasoningText(broken(thought.text), thought.is_open) if thought else None), broken(answer)

    def _encode_opening(self, text: str, seam: str) -> list[int]:
        first, *rest = text.split(seam)
        ids = self.encode(first) if self._template else self.opening() + self.encode(first)
        return ids + [token for part in rest for token in self.encode_onward(part)]

    def _encode_answer(self, opening: str, text: str, seam: str) -> list[int]:
        first, *rest = text.split(seam)
        answer = self._encode_behind(opening.rsplit(seam, 1)[-1], first)
        return answer + [token for part in rest for token in self.encode_onward(part)]

    def _place_answer(self, asked: list[ChatMessage], opening: str, seam: str, render: Render) -> tuple[str, str]:
        """Where an answer stands that is begun: what comes before it, and between the two."""
        try:
            whole = write_chat([*asked, ChatMessage("assistant", seam)], render)
        except InputError:  # some templates want the last word to be a person's
            return opening, ""
        return place_of_answer(opening, whole, seam, self._controls.has_control)

    def _with_tools(self, messages: list[ChatMessage], tools: Sequence[Tool]) -> tuple[list[ChatMessage], Functions]:
        """The conversation as the template can be given it, and the tools if it is given them."""
        if not tools and not mentions_calls(messages):
            return messages, []
        if self.tool_template is None:
            return in_plain_words(messages, tools), []
        functions = map_strings([function_of(tool) for tool in tools], _well_formed)
        return fitted(messages, self.tool_template, self.call_format.id_length), functions

    def _renderer(
        self, functions: Functions, values: TemplateValues, mark: str, add_generation_prompt: bool = True
    ) -> Render:
        """Writes a conversation with the model's template; `mark` stands for a picture."""

        def render(messages: Sequence[ChatMessage]) -> str:
            template = self.tool_template if functions or mentions_calls(messages) else None
            template = template or ToolTemplate()
            turns, given = template.given([template.turn(message) for message in messages], functions)
            told = [in_parts(turn, mark, self._wants_parts) for turn in turns]
            return self._render(told, given, add_generation_prompt, values)

        return render

    def _render(
        self,
        turns: list[Turn],
        functions: Functions,
        add_generation_prompt: bool = True,
        values: TemplateValues = (),
    ) -> str:
        own = {"add_generation_prompt": add_generation_prompt, "tools": functions or None, **self._special_names}
        variables = {**dict(values), **own}
        return shared_renderer().render(self._template, turns, variables)

    def _encode_behind(self, before: str, text: str) -> list[int]:
        """The tokens of a text behind another one whose tokens do not change."""
        ids, both = self.encode(before), self.encode(before + text)
        return both[len(ids) :] if ids and both[: len(ids)] == ids else self.encode_onward(text)

    def _describe(self, token: int) -> str:
        if token in self._specials:
            return self._specials[token]
        if token not in self._names:
            return f"[{token}]"
        return self.decode([*self._lead, token])[len(self.decode(self._lead)) :]

    def _written(self, name: str, text: str) -> bytes:
        """The bytes of a token: those of its text, unless it breaks a character; nothing where they cannot be told."""
        if self._has_byte_tokens and name in BYTE_OF_TOKEN:
            return bytes((BYTE_OF_TOKEN[name],))
        if REPLACEMENT not in text:
            return text.encode()
        letters = bytes(BYTE_OF_LETTER[letter] for letter in name if letter in BYTE_OF_LETTER)
        return letters if len(letters) == len(name) and letters.decode(errors="replace") == text else b""

    def _spelled(self) -> dict[int, bytes]:
        """The bytes that every token writes inside a text, where they can be told; tokens named for a byte last."""
        tokens = sorted(self._names, key=lambda token: (self._names[token] in BYTE_OF_TOKEN, token))
        skipped = len(self.decode(self._lead))
        texts = self._backend.decode_each([[*self._lead, token] for token in tokens])
        told = (
            (token, self._written(self._names[token], text[skipped:]))
            for token, text in zip(tokens, texts, strict=True)
        )
        return {token: written for token, written in told if written}

    def _writes_byte_tokens(self) -> bool:
        """Whether tokens such as `<0x41>` are decoded to the bytes they name."""
        return any(
            name in self.vocabulary and self._backend.decode([self.vocabulary[name]]) == chr(byte)
            for name, byte in BYTE_OF_TOKEN.items()
            if 0x41 <= byte < 0x5B
        )


def _well_formed(text: str) -> str:
    """The text with halves of surrogate pairs joined, or replaced where the other half is missing."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
