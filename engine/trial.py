"""Short answers that a pair writes for itself before anybody asks.

Trials: rates of the machine say what a pass should take; how often a target accepts what its draft proposes, only the
pair itself can tell. What these answers teach is kept as that of any other answer, so that a pair tries once.

A rehearsal teaches nothing. What first answers wait for is there then: loops are compiled or read, libraries imported.
"""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

from engine.answering import Answering
from engine.errors import Cancellation, Cancelled, CoppiceError, UnrunnableError
from engine.loading.kept.kept_texts import KeptTexts
from engine.loading.learned import Learned
from engine.loading.loaded_pair import LoadedPair
from engine.loading.rates import recall_answer, sees
from engine.model.device import SMALLEST
from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Finished, Loading
from engine.protocol.options import GenerateOptions, SpeculationOptions
from engine.protocol.sentences import say
from engine.text.prompt import write_prompt

QUESTIONS = (
    "How do I make a cup of tea?",
    "Tell me about dolphins.",
    "Write a short story about a girl and a golden coin.",
    "What is the meaning of life?",
    "Why is the sky blue?",
    "Write a poem about rain.",
    "List five fruits.",
    "Tell me about yourself, and what you like to do.",
)
TOKENS = 24  # of each answer: several short texts tell more than a long one
SECONDS = 4.0  # in all
LEAST_ROUNDS = 6  # that say something; with a prompt before them
LEAST_CONTEXT = 512  # tokens: in less, a question with its template may not fit


def is_due(loaded: LoadedPair) -> bool:
    """Whether nothing is known yet of a pair with its layers where they are, and enough rounds take little time."""
    if loaded.draft is None or loaded.pair.target.parameters < SMALLEST or not _is_quick(loaded):
        return False
    known = recall_answer(loaded.pair.identity, loaded.pair.options.budget)
    return known is None or not sees(known, loaded.place)


def _is_quick(loaded: LoadedPair) -> bool:
    """Whether a short answer takes little time, and has room."""
    is_slow = LEAST_ROUNDS * loaded.weights.plan.forecast.seconds_per_round > SECONDS
    return loaded.context_tokens >= LEAST_CONTEXT and not is_slow


def trial_answers(request: int, loaded: LoadedPair, cancellation: Cancellation) -> Iterator[Loading]:
    """Answer questions until the time is spent, if it is due; yields progress.

    Raises `Cancelled`, and `UnrunnableError` where a model cannot be run at all. Where an answer fails otherwise,
    the first one that a person asks for tells why.
    """
    if not is_due(loaded):
        return
    begin = time.perf_counter()
    speculation = SpeculationOptions(budget=loaded.pair.options.budget)
    options = GenerateOptions(speculation=speculation, max_new_tokens=TOKENS)
    for number, question in enumerate(QUESTIONS):
        yield Loading(request, say("Measuring this pair"), number, len(QUESTIONS))
        asked = time.perf_counter()
        try:
            prompt = write_prompt(loaded.pair.tokenizer, (ChatMessage("user", question),))
            for _ in Answering(loaded, prompt, options, Watcher(), is_trial=True).events(request):
                cancellation.check()
        except (Cancelled, UnrunnableError):
            raise
        except CoppiceError:
            return
        except Exception as error:  # noqa: BLE001  # the pair is loaded all the same
            traceback.print_exception(error)
            return
        cancellation.check()
        now = time.perf_counter()
        if now - begin + (now - asked) > SECONDS:
            return


def rehearse(loaded: LoadedPair, check: Callable[[], None]) -> None:
    """Write a short answer that nobody reads, and forget it, if that takes little time: for a pair that is new.

    `check` is called after every round, and may raise to end it. What fails here, the first answer tells.
    """
    if not _is_quick(loaded):
        return
    alone = replace(loaded, learned=Learned(), texts=KeptTexts(0))
    prompt = write_prompt(loaded.pair.tokenizer, (ChatMessage("user", QUESTIONS[0]),))
    try:
        answering = Answering(alone, prompt, GenerateOptions(max_new_tokens=TOKENS), Watcher())
        with closing(answering.events(0)) as events:
            for event in events:
                check()
                if isinstance(event, Finished):
                    break  # before anything of it is remembered
    finally:
        for context in filter(None, (loaded.merged, loaded.draft, loaded.target)):
            context.rewind(0)
