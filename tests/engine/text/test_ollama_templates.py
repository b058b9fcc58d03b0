"""Chat templates for files that Ollama writes without one: the prompts that it writes itself (model/renderers)."""

import pytest

from engine.model.gguf.chat_templates import TEMPLATES
from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import CHANNELS
from engine.text.tokenizer import Tokenizer
from tests.engine.text.tiny_tokenizers import BEGIN, END, library_tokenizer

CONTROL = {
    "gemma3": ("<start_of_turn>", "<end_of_turn>"),
    "gemma4": ("<|turn>", "<turn|>", "<|channel>", "<channel|>"),
    "qwen2vl": ("<|im_start|>", "<|im_end|>"),
    "qwen35": ("<|im_start|>", "<|im_end|>", "<think>", "</think>"),
    "gpt-oss": ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"),
    "mistral3": ("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "llama4": ("<|header_start|>", "<|header_end|>", "<|eot|>"),
}
SYSTEM = (
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
    "Knowledge cutoff: 2024-06\n\nReasoning: medium\n\n"
    "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
)
PROMPTS = {
    "gemma3": f"{BEGIN}<start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n"
    "<start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n",
    "gemma4": f"{BEGIN}<|turn>system\nBe kind.<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\nYes?<turn|>\n"
    "<|turn>user\nWhy?<turn|>\n<|turn>model\n",
    "qwen2vl": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?"
    "<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n",
    "qwen35": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?"
    "<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n<think>\n",
    "gpt-oss": f"{SYSTEM}<|start|>developer<|message|># Instructions\n\nBe kind.<|end|><|start|>user<|message|>Hi"
    "<|end|><|start|>assistant<|channel|>final<|message|>Yes?<|end|><|start|>user<|message|>Why?<|end|><|start|>assistant",
    "mistral3": f"{BEGIN}[SYSTEM_PROMPT]Be kind.[/SYSTEM_PROMPT][INST]Hi[/INST]Yes?{END}[INST]Why?[/INST]",
    "llama4": f"{BEGIN}<|header_start|>system<|header_end|>\n\nBe kind.<|eot|><|header_start|>user<|header_end|>\n\n"
    "Hi<|eot|><|header_start|>assistant<|header_end|>\n\nYes?<|eot|><|header_start|>user<|header_end|>\n\nWhy?<|eot|>"
    "<|header_start|>assistant<|header_end|>\n\n",
}
CHAT = [
    ChatMessage("system", "Be kind."),
    ChatMessage("user", "Hi"),
    ChatMessage("assistant", "Yes?"),
    ChatMessage("user", "Why?"),
]


@pytest.mark.parametrize("architecture", PROMPTS)
def test_prompts_are_those_of_ollama(architecture: str) -> None:
    tokenizer = Tokenizer(library_tokenizer("byte level", TEMPLATES[architecture], CONTROL[architecture]))
    assert tokenizer.encode_chat(CHAT) == tokenizer.encode(PROMPTS[architecture])
    assert not tokenizer.chat_stop
    assert len(tokenizer.encode_chat(CHAT[1:2])) < len(tokenizer.encode_chat(CHAT))


def test_what_a_template_is_for_is_tried() -> None:
    alike = {"gemma3n": "gemma3", "qwen3vl": "qwen2vl", "qwen3vlmoe": "qwen2vl", "qwen35moe": "qwen35"}
    assert PROMPTS.keys() | alike.keys() == TEMPLATES.keys()
    for architecture, other in alike.items():
        assert TEMPLATES[architecture] == TEMPLATES[other]


def test_channels_are_known_by_their_tokens() -> None:
    tokenizer = Tokenizer(library_tokenizer("byte level", TEMPLATES["gpt-oss"], CONTROL["gpt-oss"]))
    assert tokenizer.reasoning.own == CHANNELS
