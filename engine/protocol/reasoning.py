"""The marks that models put around their reasoning, in their own tokens and in the text that leaves the engine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    """What stands before and behind the reasoning."""

    begin: str
    end: str


# What the engine writes where a model's own marks are control tokens, which are no text.
COMMON = Marks("<think>", "</think>")
CHANNELS = Marks("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>")
THOUGHT_CHANNEL = Marks("<|channel>thought\n", "<channel|>")

# In the order of their age. Models whose marks are ordinary tokens write them into their text.
MARKS = (
    COMMON,
    Marks("<thinking>", "</thinking>"),
    Marks("<thought>", "</thought>"),
    Marks("<reasoning>", "</reasoning>"),
    Marks("<seed:think>", "</seed:think>"),
    Marks("[THINK]", "[/THINK]"),
    Marks("<|think|>", "<|/think|>"),
    Marks("<|begin_of_thought|>", "<|end_of_thought|>"),
    Marks("<|START_THINKING|>", "<|END_THINKING|>"),
    Marks("<|inner_prefix|>", "<|inner_suffix|>"),
    Marks("◁think▷", "◁/think▷"),
    THOUGHT_CHANNEL,
    CHANNELS,
)
