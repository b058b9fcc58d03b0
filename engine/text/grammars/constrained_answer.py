"""Where the constraint of one answer holds: behind the reasoning of a model that reasons."""

from functools import reduce

from engine.errors import InputError
from engine.protocol.options import Constraint
from engine.protocol.reasoning import CHANNELS
from engine.protocol.sentences import say
from engine.text.grammars.calls_in_text import CallMarks, Either, FreeText
from engine.text.grammars.grammar import ANYTHING, AnswerState, Grammar
from engine.text.grammars.reasoning_first import Channels, Choosing, ChoosingInText, Gap, Thinking, ThinkingInText
from engine.text.grammars.trial import try_out
from engine.text.prompt import Prompt
from engine.text.reasoning import ANSWER_CHANNEL, Sign
from engine.text.tokenizer import Tokenizer

TAIL = 16  # tokens of a prompt that tell how it begins the answer


def state_of_answer(tokenizer: Tokenizer, prompt: Prompt, constraint: Constraint) -> AnswerState:
    """The state before the first token of the answer, or behind the tokens of one that is continued.

    A grammar may name special tokens: `<|name|>` for one that is called so, `<[id]>` for any. Raises `InputError` for
    a constraint that cannot be used, and where the answer so far does not fit it.
    """
    root = Grammar(constraint, tokenizer.grammar_vocabulary).root
    state = root if constraint.whole else _before_answer(tokenizer, prompt, *_forms(tokenizer, constraint, root))
    begun = reduce(lambda state, token: state.follow(token), prompt.answer, state)
    if not begun.is_possible and constraint.marks and not constraint.other:
        return state  # a mark that somebody else's text mentions
    if not begun.is_possible:
        words = say("The answer that is to be continued does not fit the constraint.")
        raise InputError(words, say("Ask for a new answer, or leave the constraint out."))
    return begun


def check_constraint(tokenizer: Tokenizer, constraint: Constraint) -> None:
    """Raise the `InputError` of `state_of_answer` for a constraint that cannot be used.

    May take seconds, from any thread; the verdict is remembered, so that `state_of_answer` is quick behind it.
    """
    for each in filter(None, (constraint, constraint.other)):
        try_out(each, tokenizer.grammar_vocabulary.special)


def _forms(
    tokenizer: Tokenizer, constraint: Constraint, root: AnswerState
) -> tuple[AnswerState, dict[str, AnswerState]]:
    """What the answer may be, and by the name of a tool what a message to it is, where calls are messages."""
    masks, other = tokenizer.grammar_masks, constraint.other
    opened = ((mark, tokenizer.encode_onward(mark.opening)) for mark in constraint.marks)
    begun = [(mark, reduce(lambda state, token: state.follow(token), tokens, root)) for mark, tokens in opened]
    recipients = {mark.text: state for mark, state in begun if mark.place == "recipient"}
    form = Grammar(other, tokenizer.grammar_vocabulary).root if other else ANYTHING
    if recipients:
        return form, recipients
    if other:
        return Either(masks, (root, form)), {}
    marks = CallMarks(masks, begun, tokenizer.special_tokens)
    return (FreeText(marks, is_first=bool(marks.first)) if begun else root), {}


def _before_answer(
    tokenizer: Tokenizer, prompt: Prompt, answer: AnswerState, calls: dict[str, AnswerState]
) -> AnswerState:
    """As the prompt begins the answer, and as the model marks its reasoning."""
    reasoning, signs = tokenizer.reasoning, tokenizer.signs
    if not reasoning.is_known:
        return answer
    asked = prompt.tokens[: len(prompt.tokens) - prompt.begun]
    tail = "".join(map(tokenizer.piece, asked[-TAIL:])).rstrip()
    if reasoning.own == CHANNELS:
        is_answer = tail.endswith("<|message|>") and ANSWER_CHANNEL in tail.rpartition("<|channel|>")[2]
        return answer if is_answer else Channels(signs, tokenizer, answer, (), calls)
    masks = tokenizer.grammar_masks
    behind = Gap(masks, answer)
    if reasoning.is_control:
        ends = [token for token, sign in signs.items() if sign is Sign.ANSWER]
        thinking: AnswerState = Thinking(ends, behind)
        begins = [token for token, sign in signs.items() if sign is not Sign.ANSWER]
        choosing: AnswerState = Choosing(masks, begins, thinking, answer)
    else:
        in_text = ThinkingInText(masks, reasoning.own.end.encode(), answer)
        thinking, choosing = in_text, ChoosingInText(masks, reasoning.own.begin.strip().encode(), in_text, answer)
    if tail.endswith(reasoning.own.begin.strip()) or (prompt.thinks and not prompt.begun):
        return thinking
    return behind if tail.endswith(reasoning.own.end) else choosing
