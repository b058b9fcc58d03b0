"""Chat templates of networks whose files Ollama writes without one, as it writes their prompts itself.

Without tools: a model that is given some reads of them in plain words. By `general.architecture`.
"""

from collections.abc import Mapping
from types import MappingProxyType

_GEMMA = """\
{{ bos_token }}{% set first = namespace(words='') %}{% for message in messages %}\
{% if message.role == 'system' %}{% set first.words = message.content | trim + '\\n\\n' %}{% else %}\
{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' }}\
{{ first.words + message.content | trim + '<end_of_turn>\\n' }}{% set first.words = '' %}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""
_GEMMA4 = """\
{{ bos_token }}{% for message in messages %}\
{{ '<|turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}\
{{ message.content | trim + '<turn|>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|turn>model\\n' }}{% endif %}"""
_CHATML = """\
{% for message in messages %}\
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
_HARMONY = """\
{{ '<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\\n' }}\
{{ 'Knowledge cutoff: 2024-06\\n\\nReasoning: medium\\n\\n' }}\
{{ '# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>' }}\
{% for message in messages %}{% if message.role == 'system' %}\
{{ '<|start|>developer<|message|># Instructions\\n\\n' + message.content + '<|end|>' }}\
{% elif message.role == 'user' %}\
{{ '<|start|>user<|message|>' + message.content + '<|end|>' }}{% else %}\
{{ '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"""
_MISTRAL = """\
{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}\
{{ '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' }}{% elif message.role == 'user' %}\
{{ '[INST]' + message.content + '[/INST]' }}{% else %}{{ message.content + eos_token }}{% endif %}{% endfor %}"""
_LLAMA4 = """\
{{ bos_token }}{% for message in messages %}\
{{ '<|header_start|>' + message.role + '<|header_end|>\\n\\n' + message.content | trim + '<|eot|>' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|header_start|>assistant<|header_end|>\\n\\n' }}{% endif %}"""

TEMPLATES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("gemma3", "gemma3n"), _GEMMA),
        "gemma4": _GEMMA4,
        **dict.fromkeys(("qwen2vl", "qwen3vl", "qwen3vlmoe"), _CHATML),
        **dict.fromkeys(("qwen35", "qwen35moe"), _CHATML.replace("assistant\\n' }}", "assistant\\n<think>\\n' }}")),
        "gpt-oss": _HARMONY,
        "mistral3": _MISTRAL,
        "llama4": _LLAMA4,
    }
)
