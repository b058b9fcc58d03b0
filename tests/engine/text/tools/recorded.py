"""Answers with calls as models of each format write them, and what they say."""

from dataclasses import dataclass

from engine.protocol.tools import Tool
from engine.text.tools import formats
from engine.text.tools.formats import Format

WEATHER = Tool(
    "get_weather",
    "The weather of a city.",
    '{"type": "object", "properties": {"city": {"type": "string", "description": "Which one."},'
    ' "days": {"type": "integer", "minimum": 1, "maximum": 9}, "metric": {"type": "boolean"}}, "required": ["city"]}',
)
CLOCK = Tool("what-time.is_it", "The time.", '{"type": "object", "properties": {}}')
TOOLS = (WEATHER, CLOCK)

Said = list[tuple[str, object] | str]  # content, and calls by name and arguments


@dataclass(frozen=True)
class Recorded:
    """An answer's text, and what it says."""

    format: Format
    text: str
    said: Said


PARIS, ROME = {"city": "Paris", "days": 3}, {"city": 'Ro"me\n{', "metric": True}
BOTH: Said = [("get_weather", PARIS), ("get_weather", ROME)]
ROME_JSON = '{"city": "Ro\\"me\\n{", "metric": true}'

RECORDED = {
    "Hermes": Recorded(
        formats.HERMES,
        'Let me see.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>\n'
        f'<tool_call>\n{{"arguments": {ROME_JSON}, "name": "get_weather"}}\n</tool_call>',
        ["Let me see.", *BOTH],
    ),
    "Hermes, text between and behind": Recorded(
        formats.HERMES,
        '<tool_call>{"name": "what-time.is_it", "arguments": {}}</tool_call> and\n'
        '<tool_call>{"name": "what-time.is_it"}</tool_call>\nDone.\n',
        [("what-time.is_it", {}), "and", ("what-time.is_it", {}), "Done.\n"],
    ),
    "Hermes, arguments as a string, several behind one mark": Recorded(
        formats.HERMES,
        '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\", \\"days\\": 3}"}\n'
        '{"type": "function", "function": {"name": "what-time.is_it", "arguments": null}}</tool_call>',
        [("get_weather", PARIS), ("what-time.is_it", {})],
    ),
    "Llama": Recorded(
        formats.LLAMA,
        '\n{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}; '
        f'{{"type": "function", "name": "get_weather", "parameters": {ROME_JSON}}}',
        BOTH,
    ),
    "Llama, with its tag": Recorded(
        formats.LLAMA, '<|python_tag|>{"name": "what-time.is_it", "parameters": {}}', [("what-time.is_it", {})]
    ),
    "Llama, an answer in JSON": Recorded(formats.LLAMA, ' {"name": "Ada", "age": 36}', [' {"name": "Ada", "age": 36}']),
    "Mistral, a list": Recorded(
        formats.MISTRAL_LIST,
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}, "id": "abcdefghi"}, '
        f'{{"name": "get_weather", "arguments": {ROME_JSON}}}]',
        BOTH,
    ),
    "Mistral": Recorded(
        formats.MISTRAL,
        'Well.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 3}'
        f"[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{ROME_JSON}",
        ["Well.", *BOTH],
    ),
    "Harmony": Recorded(
        formats.HARMONY,
        "I look.<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city": "Paris", "days": 3}',
        ["I look.", ("get_weather", PARIS)],
    ),
    "DeepSeek": Recorded(
        formats.DEEPSEEK,
        "\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Paris", "days": 3}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n'
        f"```json\n{ROME_JSON}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        BOTH,
    ),
    "DeepSeek 3.1": Recorded(
        formats.DEEPSEEK_3_1,
        "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Paris", "days": 3}<｜tool▁call▁end｜><｜tool▁call▁begin｜>what-time.is_it<｜tool▁sep｜>'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ["Hm.", ("get_weather", PARIS), ("what-time.is_it", {})],
    ),
    "Kimi": Recorded(
        formats.KIMI,
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris", "days": 3}<|tool_call_end|><|tool_call_begin|>functions.get_weather:1'
        f"<|tool_call_argument_begin|>{ROME_JSON}<|tool_call_end|><|tool_calls_section_end|>",
        BOTH,
    ),
    "Command": Recorded(
        formats.COMMAND,
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": '
        '{"city": "Paris", "days": 3}},\n    {"tool_call_id": "1", "tool_name": "get_weather", "parameters": '
        f"{ROME_JSON}}}\n]<|END_ACTION|>",
        BOTH,
    ),
    "Granite": Recorded(
        formats.GRANITE,
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]',
        [("get_weather", PARIS)],
    ),
    "Phi": Recorded(
        formats.GRANITE,
        'Ok <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]<|/tool_call|>',
        ["Ok", ("get_weather", PARIS)],
    ),
    "Nemotron": Recorded(
        formats.NEMOTRON,
        f'<TOOLCALL>[{{"name": "get_weather", "arguments": {ROME_JSON}}}]</TOOLCALL>\n',
        [("get_weather", ROME)],
    ),
    "Functionary": Recorded(
        formats.FUNCTIONARY,
        f"Hm<function=get_weather>{ROME_JSON}</function>\n<function=what-time.is_it></function>",
        ["Hm", ("get_weather", ROME), ("what-time.is_it", {})],
    ),
    "Qwen Coder": Recorded(
        formats.QWEN_CODER,
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        '</function>\n</tool_call>\n<function=get_weather>\n<parameter=city>\nRo"me\n{\n</parameter>\n'
        "<parameter=metric>\nTrue\n</parameter>\n</function>\n</tool_call>",
        BOTH,
    ),
    "Seed": Recorded(
        formats.SEED,
        "<seed:tool_call>\n<function=what-time.is_it>\n</function>\n</seed:tool_call>",
        [("what-time.is_it", {})],
    ),
    "GLM": Recorded(
        formats.GLM,
        "\nFine.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>"
        '\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>get_weather<arg_key>city</arg_key><arg_value>Ro"me\n{'
        "</arg_value><arg_key>metric</arg_key><arg_value>true</arg_value></tool_call>"
        "<tool_call>what-time.is_it</tool_call>",
        ["\nFine.", *BOTH, ("what-time.is_it", {})],
    ),
    "Gemma": Recorded(
        formats.GEMMA,
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|><|tool_call>call:get_weather{'
        'city:<|"|>Ro"me\n{<|"|>,metric:true}<tool_call|>',
        BOTH,
    ),
    "Gemma, nested": Recorded(
        formats.GEMMA,
        '<|tool_call>call:f{a:{b:[1,<|"|>x,y<|"|>, {}],c:null},d:[],e:-1.5e3}<tool_call|>',
        [("f", {"a": {"b": [1, "x,y", {}], "c": None}, "d": [], "e": -1500.0})],
    ),
    "Function Gemma": Recorded(
        formats.FUNCTION_GEMMA,
        "Fine.<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}<end_function_call>",
        ["Fine.", ("get_weather", PARIS)],
    ),
    "MiniMax": Recorded(
        formats.MINIMAX,
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>\n<invoke name="get_weather">\n<parameter name="city">Ro"me\n{'
        '</parameter>\n<parameter name="metric">true</parameter>\n</invoke>\n</minimax:tool_call>',
        BOTH,
    ),
}
