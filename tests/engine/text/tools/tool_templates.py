"""Chat templates that know tools, with the marks of the families that people use, written for these tests."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import AddedToken

from engine.text.tokenizer import Tokenizer
from engine.text.tools import formats
from engine.text.tools.formats import Format
from tests.engine.text.tiny_tokenizers import library_tokenizer


@dataclass(frozen=True)
class ToolFamily:
    """A template, the tokens that it writes, and the format of calls that follows from both.

    `control` are special tokens, `words` others that are whole. `empty` and `as_text`: what transformers has to be
    given for a turn that only calls. `one_each`: it refuses or forgets a second call in a turn.
    """

    format: Format
    template: str
    control: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    empty: str | None = ""
    as_text: bool = False
    one_each: bool = False

    @cached_property
    def library(self) -> Any:
        library = library_tokenizer("byte level", self.template, self.control)
        library.add_tokens([AddedToken(word, special=False, normalized=False) for word in self.words])
        return library

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self.library)


CHATML = ("<|im_start|>", "<|im_end|>")
HERMES_WORDS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

LISTED = (
    "{% if tools %}{{ '<|im_start|>system\n' }}{% if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}"
    "{% endif %}{{ '# Tools\n<tools>' }}{% for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}"
    "{{ '\n</tools><|im_end|>\n' }}{% elif messages[0].role == 'system' %}"
    "{{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{% endif %}"
)
RESPONSES = (
    "{% elif m.role == 'tool' %}{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}"
    "{{ '<|im_start|>user' }}{% endif %}{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}"
)
ASKED = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
SAID = (
    "{% for m in messages %}{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% elif m.role == 'assistant' %}"
)
HERMES = (
    LISTED + SAID + "{{ '<|im_start|>assistant' }}{% if m.content %}{{ '\n' + m.content }}{% endif %}"
    "{% for call in m.tool_calls %}{% set call = call.function if call.function else call %}"
    '{{ \'\n<tool_call>\n{"name": "\' + call.name + \'", "arguments": \' + (call.arguments | tojson) }}'
    "{{ '}\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}" + RESPONSES + "{% endif %}{% endfor %}" + ASKED
)
# Reasons, and takes arguments in both ways.
QWEN_3 = HERMES.replace(
    "(call.arguments | tojson)", "(call.arguments if call.arguments is string else call.arguments | tojson)"
).replace("m.content + '<|im_end|>", "m.content.split('</think>')[-1] + '<|im_end|>")
QWEN_CODER = (
    LISTED + SAID + "{{ '<|im_start|>assistant' }}{% if m.content %}{{ '\n' + m.content }}{% endif %}"
    "{% for call in m.tool_calls %}{{ '\n<tool_call>\n<function=' + call.function.name + '>\n' }}"
    "{% for key, value in call.function.arguments | items %}{{ '<parameter=' + key + '>\n' }}"
    "{{ value if value is string else value | tojson }}{{ '\n</parameter>\n' }}{% endfor %}"
    "{{ '</function>\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}" + RESPONSES + "{% endif %}{% endfor %}" + ASKED
)
MINIMAX = (
    "{{ ']~!b[]~b]system\n' }}{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{% if tools %}{{ '<tools>' }}{% for tool in tools %}{{ '\n<tool>' + (tool.function | tojson) + '</tool>' }}"
    "{% endfor %}{{ '\n</tools>' }}{% endif %}{{ '[e~[\n' }}"
    "{% for m in messages %}{% if m.role == 'user' %}{{ ']~b]user\n' + m.content + '[e~[\n' }}"
    "{% elif m.role == 'assistant' %}{{ ']~b]ai\n' + m.content }}{% if m.tool_calls %}{{ '\n<minimax:tool_call>\n' }}"
    "{% for call in m.tool_calls %}{{ '<invoke name=\"' + call.function.name + '\">\n' }}"
    "{% for key, value in call.function.arguments.items() %}{{ '<parameter name=\"' + key + '\">' }}"
    "{{ value if value is string else value | tojson }}{{ '</parameter>\n' }}{% endfor %}{{ '</invoke>\n' }}"
    "{% endfor %}{{ '</minimax:tool_call>' }}{% endif %}{{ '[e~[\n' }}{% elif m.role == 'tool' %}"
    "{{ ']~b]tool\n<response>' + m.content + '</response>[e~[\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ ']~b]ai\n' }}{% endif %}"
)
LLAMA_HEAD = "'<|start_header_id|>' + {} + '<|end_header_id|>\n\n'"
LLAMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set told = messages[0].content %}"
    "{% set messages = messages[1:] %}{% else %}{% set told = '' %}{% endif %}{{ "
    + LLAMA_HEAD.format("'system'")
    + " }}"
    "{% if tools %}{{ 'Environment: ipython\n' }}{% endif %}{{ told + '<|eot_id|>' }}{% if tools %}"
    "{% set first = messages[0].content | trim %}{% set messages = messages[1:] %}{{ "
    + LLAMA_HEAD.format("'user'")
    + ' }}{{ \'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.'
    " Do not use variables.\n\n' }}{% for t in tools %}{{ t | tojson(indent=4) + '\n\n' }}{% endfor %}"
    "{{ first + '<|eot_id|>' }}{% endif %}{% for m in messages %}{% if m.role == 'tool' or m.role == 'ipython' %}{{ "
    + LLAMA_HEAD.format("'ipython'")
    + " }}{% if m.content is mapping or m.content is iterable %}{{ m.content | tojson }}{% endif %}{{ '<|eot_id|>' }}"
    "{% elif m.tool_calls %}{% if m.tool_calls | length != 1 %}"
    "{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}"
    "{% set call = m.tool_calls[0].function %}{{ "
    + LLAMA_HEAD.format("'assistant'")
    + " }}{{ '{\"name\": \"' + call.name + '\", \"parameters\": ' + (call.arguments | tojson) + '}' }}"
    "{{ '<|eot_id|>' }}{% else %}{{ "
    + LLAMA_HEAD.format("m.role")
    + " + m.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ "
    + LLAMA_HEAD.format("'assistant'")
    + " }}{% endif %}"
)
MISTRAL_TURNS = (
    "{{ bos_token }}{% set asked = messages | selectattr('role', 'equalto', 'user') | list %}"
    "{% for m in messages %}{% if m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{% elif m.role == 'user' %}{% if tools and m == asked[-1] %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) }}"
    "{{ '[/AVAILABLE_TOOLS]' }}{% endif %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{% elif m.role == 'tool' %}TOOL{% elif m.tool_calls is defined and m.tool_calls %}CALLS"
    "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}"
)
NINE = (
    "{% if call.id is not defined or call.id | length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
)
MISTRAL_LIST = MISTRAL_TURNS.replace(
    "TOOL{%",
    "{{ '[TOOL_RESULTS]{\"content\": ' + m.content + ', \"call_id\": \"' + m.tool_call_id + '\"}[/TOOL_RESULTS]' }}{%",
).replace(
    "CALLS",
    "{{ '[TOOL_CALLS] [' }}{% for call in m.tool_calls %}" + NINE + "{% set text = call.function | tojson %}"
    "{{ text[:-1] + ', \"id\": \"' + call.id + '\"}' }}{{ ', ' if not loop.last else ']' + eos_token }}{% endfor %}",
)
MISTRAL = MISTRAL_TURNS.replace(
    "TOOL{%", "{{ '[TOOL_RESULTS]' + m.tool_call_id + '[TOOL_CONTENT]' + m.content + '[/TOOL_RESULTS]' }}{%"
).replace(
    "CALLS",
    "{{ m.content }}{% for call in m.tool_calls %}" + NINE + "{{ '[TOOL_CALLS]' + call.function.name + '[CALL_ID]' }}"
    "{{ call.id + '[ARGS]' + call.function.arguments | tojson }}{% endfor %}{{ eos_token }}",
)
HARMONY = (
    "{{ '<|start|>system<|message|>You are a model.<|end|>' }}{% if tools %}"
    "{{ '<|start|>developer<|message|># Tools\n\nnamespace functions {\n' }}{% for tool in tools %}"
    "{{ '// ' + tool.function.description + '\ntype ' + tool.function.name + ' = (_: ' }}"
    "{{ (tool.function.parameters.properties | tojson) + ') => any;\n' }}{% endfor %}{{ '}<|end|>' }}{% endif %}"
    "{% set last = namespace(name=none) %}{% for m in messages %}{% if m.role == 'assistant' and m.tool_calls %}"
    "{% set call = m.tool_calls[0].function %}{% set last.name = call.name %}"
    "{{ '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}"
    "{{ call.arguments | tojson }}{{ '<|call|>' }}{% elif m.role == 'tool' %}"
    "{{ '<|start|>functions.' + last.name + ' to=assistant<|channel|>commentary<|message|>' }}"
    "{{ m.content | tojson }}{{ '<|end|>' }}{% elif m.role == 'assistant' %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}{% else %}"
    "{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
DEEPSEEK_TURNS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if tools %}{{ '\n## Tools\n' }}{% for tool in tools %}{{ (tool.function | tojson) + '\n' }}{% endfor %}"
    "{% endif %}{% for m in messages %}{% if m.role == 'user' %}{{ '<｜User｜>' + m.content + '<｜Assistant｜>' }}"
    "{% elif m.role == 'assistant' and m.content is none %}CALLS"
    "{% elif m.role == 'assistant' and m.content is not none %}{{ m.content + '<｜end▁of▁sentence｜>' }}"
    "{% elif m.role == 'tool' %}{{ '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' }}{% endif %}"
    "{% endfor %}"
)
DEEPSEEK = DEEPSEEK_TURNS.replace(
    "CALLS",
    "{{ '<｜tool▁calls▁begin｜>' }}{% for call in m.tool_calls %}{{ '\n' if not loop.first else '' }}"
    "{{ '<｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' + call.function.name + '\n```json\n' }}"
    "{{ call.function.arguments + '\n```<｜tool▁call▁end｜>' }}{% endfor %}"
    "{{ '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}",
)
DEEPSEEK_3_1 = DEEPSEEK_TURNS.replace(
    "CALLS",
    "{{ '<｜tool▁calls▁begin｜>' }}{% for call in m.tool_calls %}{{ '<｜tool▁call▁begin｜>' + call.function.name }}"
    "{{ '<｜tool▁sep｜>' + call.function.arguments + '<｜tool▁call▁end｜>' }}{% endfor %}"
    "{{ '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}",
)
DEEPSEEK_CONTROL = (
    "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
    "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>",
)  # fmt: skip
GLM = (
    "[gMASK]<sop>{% if tools %}{{ '<|system|>\n# Tools\n<tools>' }}{% for tool in tools %}"
    "{{ '\n' + (tool | tojson(ensure_ascii=False)) }}{% endfor %}{{ '\n</tools>' }}{% endif %}{% for m in messages %}"
    "{% if m.role == 'assistant' %}{{ '<|assistant|>' }}{% if m.content %}{{ '\n' + m.content }}{% endif %}"
    "{% for call in m.tool_calls or [] %}{{ '\n<tool_call>' + call.function.name + '\n' }}"
    "{% for k, v in call.function.arguments.items() %}{{ '<arg_key>' + k + '</arg_key>\n<arg_value>' }}"
    "{{ v if v is string else v | tojson(ensure_ascii=False) }}{{ '</arg_value>\n' }}{% endfor %}"
    "{{ '</tool_call>' }}{% endfor %}{% elif m.role == 'tool' %}"
    "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|observation|>' }}{% endif %}"
    "{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}{% else %}"
    "{{ '<|' + m.role + '|>\n' + m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
GRANITE = (
    "{% if tools %}{{ '<|start_of_role|>tools<|end_of_role|>' + (tools | tojson(indent=4)) + '<|end_of_text|>\n' }}"
    "{% endif %}{% for m in messages %}{{ '<|start_of_role|>' }}{% if m.role == 'tool' %}{{ 'tool_response' }}"
    "{% else %}{{ m.role }}{% endif %}{{ '<|end_of_role|>' + m.content }}{% for call in m.tool_calls %}"
    "{{ '<|tool_call|>[' if loop.first else ', ' }}{{ call.function | tojson }}{{ ']' if loop.last else '' }}"
    "{% endfor %}{{ '<|end_of_text|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"
)
COMMAND = (
    "{{ bos_token + '<|SYSTEM|>' }}{% if tools %}{{ '# Available Tools\n[\n' }}{% for tool in tools %}"
    '{{ \'{"name": "\' + tool.function.name + \'", "description": "\' + tool.function.description }}'
    "{{ '\", \"parameters\": ' + (tool.function.parameters | tojson) + '}\n' }}{% endfor %}{{ ']' }}{% endif %}"
    "{{ '<|END|>' }}{% set counted = namespace(n=0) %}{% for m in messages %}{% if m.role == 'tool' %}"
    "{{ '<|SYSTEM|><|START_TOOL_RESULT|>[{\"results\": ' + (m.content | tojson) + '}]<|END_TOOL_RESULT|><|END|>' }}"
    "{% elif m.role == 'assistant' %}{{ '<|CHATBOT|>' }}{% if m.tool_calls %}{{ '<|START_ACTION|>[\n' }}"
    '{% for call in m.tool_calls %}{{ \'    {"tool_call_id": "\' + counted.n | string + \'", "tool_name": "\' }}'
    "{{ call.function.name + '\", \"parameters\": ' + (call.function.arguments | tojson) + '}' }}"
    "{{ ',\n' if not loop.last else '\n' }}{% set counted.n = counted.n + 1 %}{% endfor %}"
    "{{ ']<|END_ACTION|><|END|>' }}{% else %}{{ '<|START_RESPONSE|>' + m.content + '<|END_RESPONSE|><|END|>' }}"
    "{% endif %}{% else %}{{ '<|USER|>' + m.content + '<|END|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|CHATBOT|>' }}{% endif %}"
)
COMMAND_CONTROL = (
    "<|SYSTEM|>", "<|USER|>", "<|CHATBOT|>", "<|END|>", "<|START_ACTION|>", "<|END_ACTION|>", "<|START_RESPONSE|>",
    "<|END_RESPONSE|>", "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>",
)  # fmt: skip
KIMI = (
    "{% if tools %}{{ '<|im_system|>tool_declare<|im_middle|>' + (tools | tojson) + '<|im_end|>' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_' + ('system' if m.role == 'tool' else m.role) + '|>' }}"
    "{{ (m.name or m.role) + '<|im_middle|>' }}{% if m.role == 'tool' %}"
    "{{ '## Return of ' + m.tool_call_id + '\n' + m.content }}{% else %}{{ m.content }}{% endif %}"
    "{% for call in m.tool_calls %}{{ '<|tool_calls_section_begin|>' if loop.first else '' }}"
    "{{ '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' + (call.function.arguments | tojson) }}"
    "{{ '<|tool_call_end|>' }}{{ '<|tool_calls_section_end|>' if loop.last else '' }}{% endfor %}{{ '<|im_end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_assistant|>assistant<|im_middle|>' }}{% endif %}"
)
KIMI_CONTROL = (
    "<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>", "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
)  # fmt: skip
FUNCTIONARY = (
    "{% for t in tools or [] %}{{ 'Use ' + t.function.name + ' ' + (t.function | tojson) + '\n' }}{% endfor %}"
    "{% for m in messages %}{{ '<|h|>' + m.role + '<|e|>' + m.content }}{% for call in m.tool_calls %}"
    "{{ '<function=' + call.function.name + '>' + (call.function.arguments | tojson) + '</function>' }}{% endfor %}"
    "{{ '<|t|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|h|>assistant<|e|>' }}{% endif %}"
)
# Writes arguments in its own way, without quotes.
GEMMA = (
    "{% macro value(v) %}{% if v is string %}{{ '<|\"|>' + v + '<|\"|>' }}{% elif v is mapping %}{{ row(v) }}"
    "{% elif v is sequence %}[{% for each in v %}{{ value(each) + (',' if not loop.last else '') }}{% endfor %}]"
    "{% else %}{{ v | tojson }}{% endif %}{% endmacro %}"
    "{% macro row(v) %}{{ '{' }}{% for k, each in v | dictsort %}{{ k + ':' + value(each) }}"
    "{{ ',' if not loop.last else '' }}{% endfor %}{{ '}' }}{% endmacro %}"
    "{{ bos_token + '<|turn>system\n' }}{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{% for tool in tools or [] %}{{ '<|tool>declaration:' + tool.function.name + row(tool.function) + '<tool|>' }}"
    "{% endfor %}{{ '<turn|>\n' }}{% for m in messages %}{% if m.role == 'user' %}"
    "{{ '<|turn>user\n' + m.content + '<turn|>\n' }}{% elif m.role == 'assistant' %}{{ '<|turn>model\n' + m.content }}"
    "{% for call in m.tool_calls %}{{ '<|tool_call>call:' + call.function.name + row(call.function.arguments) }}"
    "{{ '<tool_call|>' }}{% endfor %}{{ '<turn|>\n' if not m.tool_calls }}{% elif m.role == 'tool' %}"
    "{{ '<|tool_response>response:' + m.name + '{value:' + value(m.content) + '}<tool_response|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt and messages[-1].role != 'tool' %}{{ '<|turn>model\n' }}{% endif %}"
)
# Has tools in the system message, and no word of how to call them.
PHI = (
    "{% for m in messages %}{% if m.role == 'system' and 'tools' in m and m.tools is not none %}"
    "{{ '<|system|>' + m.content + '<|tool|>' + m.tools + '<|/tool|><|end|>' }}{% else %}"
    "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

KNOWING = {
    "Hermes": ToolFamily(formats.HERMES, HERMES, CHATML, HERMES_WORDS),
    "Qwen 3": ToolFamily(formats.HERMES, QWEN_3, CHATML, HERMES_WORDS),
    "Qwen Coder": ToolFamily(formats.QWEN_CODER, QWEN_CODER, CHATML, HERMES_WORDS),
    "Seed": ToolFamily(
        formats.SEED, QWEN_CODER.replace("tool_call>", "seed:tool_call>"), CHATML,
        ("<seed:tool_call>", "</seed:tool_call>"),
    ),
    "MiniMax": ToolFamily(
        formats.MINIMAX, MINIMAX, ("]~!b[", "]~b]", "[e~["), ("<minimax:tool_call>", "</minimax:tool_call>")
    ),
    "Llama": ToolFamily(
        formats.LLAMA, LLAMA,
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"), one_each=True,
    ),
    "Mistral, a list": ToolFamily(
        formats.MISTRAL_LIST, MISTRAL_LIST,
        ("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
         "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    ),
    "Mistral": ToolFamily(
        formats.MISTRAL, MISTRAL,
        ("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
         "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "[CALL_ID]", "[ARGS]"),
    ),
    "Harmony": ToolFamily(
        formats.HARMONY, HARMONY,
        ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"),
        one_each=True,
    ),
    "DeepSeek": ToolFamily(formats.DEEPSEEK, DEEPSEEK, DEEPSEEK_CONTROL, empty=None, as_text=True),
    "DeepSeek 3.1": ToolFamily(formats.DEEPSEEK_3_1, DEEPSEEK_3_1, DEEPSEEK_CONTROL, empty=None, as_text=True),
    "GLM": ToolFamily(
        formats.GLM, GLM, ("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
        (*HERMES_WORDS, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    "Granite": ToolFamily(
        formats.GRANITE, GRANITE, ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>")
    ),
    "Command": ToolFamily(formats.COMMAND, COMMAND, COMMAND_CONTROL),
    "Kimi": ToolFamily(formats.KIMI, KIMI, KIMI_CONTROL),
    "Gemma": ToolFamily(
        formats.GEMMA, GEMMA,
        ("<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>",
         "<tool_response|>", '<|"|>'),
    ),
    "Functionary": ToolFamily(formats.FUNCTIONARY, FUNCTIONARY, ("<|h|>", "<|e|>", "<|t|>")),
}  # fmt: skip
NO_TOOLS = ToolFamily(
    formats.HERMES,
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system') }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim }}"
    "{{ '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
    ("<start_of_turn>", "<end_of_turn>"),
)
PHI_MINI = ToolFamily(
    formats.GRANITE,
    PHI,
    ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|tool|>", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>"),
)
# Of a model that calls with tags, but writes no calls: the tools are told in words instead.
FORGETFUL = {
    name: ToolFamily(
        format,
        f"{{# {marks} #}}{LISTED}{{% for m in messages %}}"
        "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" + ASKED,
        CHATML,
        HERMES_WORDS,
    )
    for name, format, marks in (
        ("Qwen Coder, no calls", formats.QWEN_CODER, "<function= <parameter="),
        ("GLM, no calls", formats.GLM, "<arg_key> <tool_call>"),
    )
}
