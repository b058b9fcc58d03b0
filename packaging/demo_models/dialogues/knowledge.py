"""Fixed answers: small talk, questions with "why", code, and what Coppice is; topics, steps and poems."""

import random

from dialogues.language import Deck, Turn, as_typed, capital, expand, read_blocks, read_lines

OPENINGS = ["First, ", "Then ", "Next, ", "After that, ", "Finally, "]
SINGULAR_S = ("photosynthesis", "mathematics", "happiness", "kindness", "Mount Everest", "chess")


class Answers:
    """Questions in several wordings with one answer, or a few answers split by "---"."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self._rng = rng
        # Every wording is a card, so that rare ones are seen as often as common ones.
        blocks = read_blocks(name).items()
        self._cards = Deck([(ask, body) for asks, body in blocks for ask in asks.split(" / ")], rng)

    def talk(self) -> list[Turn]:
        ask, body = self._cards.deal()
        answer = self._rng.choice(body.split("\n---\n"))
        return [(as_typed(expand(ask, self._rng), self._rng), expand(answer, self._rng).strip())]


class Knowledge:
    """Answers that are put together from sentences or steps."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._topics = Deck([(k, v.split("\n")) for k, v in read_blocks("topics.txt").items()], rng)
        self._steps = Deck([(k, v.split("\n")) for k, v in read_blocks("howto.txt").items()], rng)
        self._poems = Deck(read_blocks("poems.txt").items(), rng)
        self._jokes = Deck(read_lines("jokes.txt"), rng)
        feelings = read_blocks("feelings.txt").items()
        self._feelings = Deck([(word, body) for words, body in feelings for word in words.split(" / ")], rng)

    def topics(self) -> list[Turn]:
        """Two sentences and then the rest, or everything at once."""
        topic, sentences = self._topics.deal()
        verb = "are" if topic.endswith("s") and topic not in SINGULAR_S else "is"
        ask = (
            f"[What {verb}|Tell me about|Explain|What do you know about|Can you explain|Describe|Write about"
            f"|Tell me something about|Write a few sentences about] {topic}"
        )
        question = expand(ask, self._rng)
        question += "?" if question.startswith(("What", "Can")) else "."
        if self._rng.random() < 0.15:
            question = question[:-1] + " in simple words" + question[-1]
        if self._rng.random() < 0.75:
            return [(as_typed(question, self._rng), " ".join(sentences))]
        more = expand("[Tell me more.|Go on.|What else?|Can you tell me more?]", self._rng)
        return [(as_typed(question, self._rng), " ".join(sentences[:2])), (more, " ".join(sentences[2:]))]

    def steps(self) -> list[Turn]:
        task, steps = self._steps.deal()
        ask = (
            f"[How do I {task}?|How can I {task}?|Tell me how to {task}.|What is the best way to {task}?|How to {task}?"
            f"|Give me tips to {task}.|I want to {task}. Can you help me?|Explain how to {task}.|How do you {task}?]"
        )
        return [(as_typed(expand(ask, self._rng), self._rng), self._as_steps(task.replace("my ", "your "), steps))]

    def _as_steps(self, task: str, steps: list[str]) -> str:
        numbered = "\n".join(f"{place}. {step}" for place, step in enumerate(steps, 1))
        form = self._rng.random()
        if form < 0.6:
            return f"Here is how you can **{task}**:\n\n{numbered}"
        if form < 0.8:
            return f"To {task}, follow these steps:\n\n{numbered}\n\nTake your time, and good luck!"
        openings = OPENINGS[: len(steps) - 1] + OPENINGS[-1:]
        return " ".join(word + step[0].lower() + step[1:] for word, step in zip(openings, steps, strict=True))

    def poems(self) -> list[Turn]:
        subject, lines = self._poems.deal()
        ask = f"[Write|Tell me|Write me|Can you write|Make|I would like] a [|short |little ]poem about {subject}[.|?]"
        return [(as_typed(expand(ask, self._rng), self._rng), lines)]

    def jokes(self) -> list[Turn]:
        ask = "[Tell me a joke.|Do you know a joke?|Make me laugh.|Tell me something funny.|Say something funny.]"
        turns = [(as_typed(expand(ask, self._rng), self._rng), self._jokes.deal())]
        if self._rng.random() < 0.3:
            turns.append(
                (expand("[Another one!|Tell me another joke.|One more, please.]", self._rng), self._jokes.deal())
            )
        return turns

    def feelings(self) -> list[Turn]:
        word, answer = self._feelings.deal()
        ask = "[I am {w}.|I feel {w}.|I'm {w}.|I feel {w} today.|I am so {w}.|I'm feeling {w}.|Today I feel very {w}.]"
        return [(as_typed(capital(expand(ask, self._rng, {"w": word})), self._rng), answer)]
