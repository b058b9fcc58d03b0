"""Short answers that a new pair writes for itself, so that the plan and the first trees rest on its own figures.

Rates of the machine say what a pass should take; how often a target accepts what its draft proposes, only the pair
itself can tell. What these answers teach is kept as that of any other answer, so that a pair tries once.
"""

import time
import traceback
from collections.abc import Iterator

from engine.answering import Answering
from engine.errors import Cancellation, Cancelled, CoppiceError
from engine.loading.loaded_pair import LoadedPair
from engine.loading.rates import recall_answer, sees
from engine.model.device import SMALLEST
from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Loading
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
    if loaded.draft is None or loaded.pair.target.parameters < SMALLEST or loaded.context_tokens < LEAST_CONTEXT:
        return False
    if LEAST_ROUNDS * loaded.weights.plan.forecast.seconds_per_round > SECONDS:
        return False
    known = recall_answer(loaded.pair.identity, loaded.pair.options.budget)
    return known is None or not sees(known, loaded.place)


def trial_answers(request: int, loaded: LoadedPair, cancellation: Cancellation) -> Iterator[Loading]:
    """Answer questions until the time is spent, if it is due; yields progress. Raises `Cancelled`.

    Where an answer fails, the first one that a person asks for tells why.
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
        except Cancelled:
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
