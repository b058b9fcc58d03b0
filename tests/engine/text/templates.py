"""Chat templates in the manner of the families that people use, written for these tests."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A template, the control tokens it writes, and the tokenizer it usually comes with."""

    kind: str
    control: tuple[str, ...]
    template: str


# Trims what people write, and names every turn in a header.
LLAMA_3 = Family(
    "byte level",
    ("<|begin|>", "<|start_header|>", "<|end_header|>", "<|eot|>"),
    "{{ '<|begin|>' }}{% for message in messages %}"
    "{{ '<|start_header|>' + message['role'] + '<|end_header|>\n\n' + message['content'] | trim + '<|eot|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header|>assistant<|end_header|>\n\n' }}{% endif %}",
)
# Adds a system message of its own, and drops the model's reasoning from earlier answers.
CHATML = Family(
    "byte level",
    ("<|im_start|>", "<|im_end|>"),
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{% set text = message.content %}"
    "{% if message.role == 'assistant' and '</think>' in text %}{% set text = text.split('</think>')[-1] %}{% endif %}"
    "{% if message.role == 'user' and text.startswith('<tool>') %}{{ '<|im_start|>tool\n' }}"
    "{% else %}{{ '<|im_start|>' + message.role + '\n' }}{% endif %}{{ text + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
)
# Refuses a system message, and anything but turns in turn.
GEMMA = Family(
    "sentencepiece without prefix",
    ("<start_of_turn>", "<end_of_turn>"),
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% set role = 'model' if message.role == 'assistant' else message.role %}"
    "{{ '<start_of_turn>' + role + '\n' + message.content | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
)
# Writes no turn at all around an answer, and leaves a system message out without a word.
MISTRAL = Family(
    "sentencepiece with prefix",
    ("[INST]", "[/INST]"),
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'user' %}{{ '[INST] ' + message.content + ' [/INST]' }}"
    "{% elif message.role == 'assistant' %}{{ ' ' + message.content + eos_token }}{% endif %}{% endfor %}",
)
# Makes its control tokens out of the roles.
PHI = Family(
    "unigram",
    ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|' + message.role + '|>' + '\n' + message.content + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
)
# Has no marks of its own between what people write and what it adds.
ALPACA = Family(
    "metaspace only",
    (),
    "{% for message in messages %}{{ '### ' + message.role + ': ' + message.content + '\n' }}"
    "{% if message.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}{{ '### assistant:' }}",
)

FAMILIES = {
    "Llama 3": LLAMA_3, "ChatML": CHATML, "Gemma": GEMMA, "Mistral": MISTRAL, "Phi": PHI, "Alpaca": ALPACA
}  # fmt: skip
