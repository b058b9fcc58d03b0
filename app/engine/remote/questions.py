"""Questions as engines elsewhere understand them: OpenAI's chat completions, and what each kind adds to them."""

from base64 import b64encode
from typing import Any

from app.engine.remote.addresses import COPPICE, LLAMA, LM_STUDIO, OTHER, SGLANG, VLLM
from app.engine.remote.constraints import constraint_fields
from app.engine.remote.tool_calls import call_fields, tool_fields
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, SamplingOptions
from engine.protocol.pictures import Picture
from engine.protocol.reasoning import MARKS
from engine.protocol.tools import Tool

ALL_TOKENS = 1 << 17
"""For DRY. Servers disagree whether -1 is as many as there are, and some make room for as many as they are told."""


def question(
    kind: str, model: str, chat: tuple[ChatMessage, ...], options: GenerateOptions, tools: tuple[Tool, ...] = ()
) -> dict[str, Any]:
    """The body of a request for a streamed answer. What a server may not know is left out unless it was set.

    Raises `InputError` for a schema that is no JSON.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": with_pictures(messages(kind, chat), chat),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": options.max_new_tokens,
        "temperature": options.sampling.temperature,
        "top_p": options.sampling.top_p,
        "seed": options.sampling.seed,
    }
    if options.stop:
        body["stop"] = list(options.stop)
    if options.ignore_eos:
        body["ignore_eos"] = True
    if tools:
        body["tools"] = tool_fields(tools)
    body |= constraint_fields(kind, options.constraint)
    return body | _set_options(kind, options.sampling) | _additions(kind, chat, options)


def messages(kind: str, chat: tuple[ChatMessage, ...]) -> list[dict[str, Any]]:
    """The turns. Former reasoning is sent to a Coppice alone, which knows what the model's template does with it."""
    last = len(chat) - 1
    return [
        {
            "role": each.role,
            "content": each.content if kind == COPPICE or place == last else _without_thought(each),
            **call_fields(each),
        }
        for place, each in enumerate(chat)
    ]


def with_pictures(turns: list[dict[str, Any]], chat: tuple[ChatMessage, ...]) -> list[dict[str, Any]]:
    """The turns of `chat`, with the pictures that each shows in their places in its text."""
    return [
        {**turn, "content": _parts(turn["content"], each.pictures)} if each.pictures else turn
        for turn, each in zip(turns, chat, strict=True)
    ]


def _parts(text: str, pictures: tuple[Picture, ...]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    written = 0
    for each in pictures:
        if before := text[written : each.at]:
            found.append({"type": "text", "text": before})
        written = max(written, each.at)
        kind = "png" if each.data.startswith(b"\x89PNG") else "jpeg"
        address = f"data:image/{kind};base64,{b64encode(each.data).decode()}"
        found.append({"type": "image_url", "image_url": {"url": address}})
    return [*found, {"type": "text", "text": text[written:]}] if text[written:] else found


def _without_thought(message: ChatMessage) -> str:
    text = message.content.lstrip()
    if message.role == "assistant":
        for marks in MARKS:
            if text.startswith(marks.begin.strip()) and marks.end in text:
                return text.partition(marks.end)[2].lstrip()
    return message.content


def _set_options(kind: str, sampling: SamplingOptions) -> dict[str, Any]:
    plain = SamplingOptions()
    penalty = "repeat_penalty" if kind in (LLAMA, LM_STUDIO) else "repetition_penalty"
    found: dict[str, tuple[Any, Any]] = {
        "top_k": (sampling.top_k, plain.top_k),
        "min_p": (sampling.min_p, plain.min_p),
        penalty: (sampling.repetition_penalty, plain.repetition_penalty),
        "presence_penalty": (sampling.presence_penalty, plain.presence_penalty),
        "frequency_penalty": (sampling.frequency_penalty, plain.frequency_penalty),
    }
    found |= _against_repetition(sampling, plain) if kind in (COPPICE, LLAMA, OTHER) else {}
    return {name: value for name, (value, default) in found.items() if value != default}


def _against_repetition(sampling: SamplingOptions, plain: SamplingOptions) -> dict[str, tuple[Any, Any]]:
    """DRY and XTC, each with its refinements where it is on."""
    found: dict[str, tuple[Any, Any]] = {}
    if sampling.dry_multiplier:
        last = sampling.dry_penalty_last_n
        breakers = ([*sampling.dry_sequence_breakers], [*plain.dry_sequence_breakers])
        found = {
            "dry_multiplier": (sampling.dry_multiplier, plain.dry_multiplier),
            "dry_base": (sampling.dry_base, plain.dry_base),
            "dry_allowed_length": (sampling.dry_allowed_length, plain.dry_allowed_length),
            "dry_penalty_last_n": (ALL_TOKENS if last < 0 else last, None),  # defaults differ
            "dry_sequence_breakers": breakers,
        }
    if sampling.xtc_probability:
        found["xtc_probability"] = (sampling.xtc_probability, plain.xtc_probability)
        found["xtc_threshold"] = (sampling.xtc_threshold, plain.xtc_threshold)
    return found


def _additions(kind: str, chat: tuple[ChatMessage, ...], options: GenerateOptions) -> dict[str, Any]:
    if kind == COPPICE:
        speculation = options.speculation
        own = {"rounds": True, "verdicts": options.verdicts}
        asked = {**own, "method": speculation.method, "budget": speculation.budget}
        return {"coppice": asked, "return_progress": True}
    if kind == LLAMA:
        return {"timings_per_token": True, "return_progress": True}
    if kind not in (VLLM, SGLANG):
        return {}
    found: dict[str, Any] = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    if chat and chat[-1].role == "assistant":  # else an answer that is continued would be answered
        found |= {"continue_final_message": True, "add_generation_prompt": False}
    return found


def reduced(body: dict[str, Any]) -> dict[str, Any]:
    """The same without what only some servers know, for one that has refused it.

    A form that the answer must have stays: an answer without it would not be what was asked for.
    """
    return {name: value for name, value in body.items() if name in _IN_EVERY_API}


_IN_EVERY_API = frozenset(
    {"model", "messages", "stream", "max_tokens", "temperature", "top_p", "seed", "stop", "response_format", "tools"}
)


KINDS_THAT_MAY_REFUSE = (OTHER, LM_STUDIO)
"""Servers that are asked again with less where they refuse what is not in every API."""
