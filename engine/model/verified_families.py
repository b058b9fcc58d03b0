"""The language models, by their model_type, whose trees and text equal transformers' own.

Written by `python -m tests.campaigns.families`, with the table in `resources/docs/families.md`.
"""

VERIFIED = frozenset(
    {
        "gemma2",
        "gemma3_text",
        "gpt_oss",
        "llama",
        "mistral",
        "mixtral",
        "olmo2",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3_moe",
    }
)
