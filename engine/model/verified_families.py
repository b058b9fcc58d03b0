"""What the tests found of language models, by their model_type: written by `python -m tests.campaigns.families`.

`VERIFIED`: trees and text equal transformers' own. `REFUTED`: they do not, because the network counts its positions or
its windows in another way than a tree needs. All are named in `resources/docs/families.md`.
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

REFUTED = frozenset(
    {
        "gpt_neo",
        "moshi",
        "mpt",
    }
)
