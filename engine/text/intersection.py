"""What two tokenizers have in common: which tokens mean the same, and how one spells what only the other has.

Timor et al. 2025 (arXiv 2502.05202), token-level intersection: a draft with another vocabulary proposes common tokens
only, and what the target says is read by it token by token.
"""

from collections.abc import Mapping
from types import MappingProxyType

from engine.text.backend import REPLACEMENT
from engine.text.tokenizer import Tokenizer

ROLES = ("bos_token", "eos_token")

# What common tokens are weighed by: prose, a list, numbers, code, and some other languages.
ORDINARY_TEXT = """\
The harbour was quiet when we arrived. Two fishing boats lay at the pier, and a woman in a yellow coat was mending nets
beside a stack of wooden crates. "You are late," she said without looking up, "the ferry left an hour ago." We asked
whether there would be another one before the evening; she shrugged, pointed at the timetable, and went on working.

To answer your question: yes, it is possible, but there are three things that you should know first.

1. **Memory** is usually the limit. A model with 7 billion parameters takes about 14 GB in 16 bits.
2. **Speed** depends on how fast the weights can be read, at most 3.5 GB/s here.
3. Results differ between runs (see section 4.2), so it's best to measure more than once, e.g. in 2024 and 2025.

```python
def average(values: list[float]) -> float:
    if not values:
        raise ValueError("there are no values")
    total = sum(value for value in values)
    return total / len(values)  # not rounded
```

Die Straßen waren nass, und über den Dächern hing noch der Nebel. Niemand wusste, wie lange es dauern würde.
La lumière du matin entrait par la fenêtre, et personne ne parlait. ¿Dónde está la estación más cercana?
Сегодня хорошая погода, и мы идём гулять. 今天天气很好，我们去公园散步吧。
"""


class TokenIntersection:
    """A target's tokenizer and a draft's, compared once.

    `common`: of the target's tokens those that the draft has too, each with the draft's id for it, one to one.
    `of_vocabulary` and `of_text`: their share, from 0 to 1, of all the target's tokens and of those of an ordinary
    text. `opening`: what the draft expects before every text.
    """

    def __init__(self, target: Tokenizer, draft: Tokenizer) -> None:
        """Raises `ModelError` where a tokenizer fails."""
        self._target, self._draft = target, draft
        own, self._ids = target.writings(), draft.writings()
        self._bytes = {token: written for written, token in own.items() if isinstance(written, bytes)}
        common = {token: self._ids[written] for written, token in own.items() if written in self._ids}
        for role in ROLES:
            token, counterpart = target.role(role), draft.role(role)
            if token is not None and counterpart is not None and counterpart not in common.values():
                common.setdefault(token, counterpart)
        self.common: Mapping[int, int] = MappingProxyType(common)
        self._spelled: dict[int, tuple[int, ...]] = {token: (counterpart,) for token, counterpart in common.items()}
        self.opening = tuple(draft.opening())
        self.of_vocabulary = len(common) / len(target.vocabulary)
        said = target.encode(ORDINARY_TEXT)
        self.of_text = sum(token in common for token in said) / max(1, len(said))

    def spell(self, token: int) -> tuple[int, ...]:
        """One of the target's tokens as the draft reads it: the common one, or one or more that write the same.

        Special tokens that the draft lacks are read by their names.
        """
        spelled = self._spelled.get(token)
        if spelled is None:
            spelled = self._spelled[token] = self._spell(token) or (0,)
        return spelled

    def _spell(self, token: int) -> tuple[int, ...]:
        written = self._bytes.get(token, b"")
        try:
            text = written.decode() or self._target.piece(token)
        except UnicodeDecodeError:  # parts of a character
            single = [self._ids.get(bytes((byte,))) for byte in written]
            known = tuple(each for each in single if each is not None)
            if len(known) == len(written):
                return known
            text = REPLACEMENT
        return tuple(self._draft.encode_onward(text))
