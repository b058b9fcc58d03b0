"""Stories in which names, pronouns and things stay what they were at the beginning."""

import random
from dataclasses import dataclass

from dialogues.language import Deck, Turn, article, as_typed, capital, expand, read_blocks

OWN_THING = ("lost", "storm", "journey", "secret")  # plots in which the hero owns the thing from the beginning
PLOTS = ("lost", "found", "storm", "learn", "share", "journey", "secret", "race")


@dataclass(frozen=True)
class Cast:
    """Who and what a story is about; `slots` fills its sentences."""

    hero: str
    name: str
    thing: str
    slots: dict[str, str]


class Stories:
    """Requests for stories, and the stories."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._texts = {name: body.split("\n") for name, body in read_blocks("stories.txt").items()}
        self._names = {who: body.split("\n") for who, body in read_blocks("names.txt").items()}
        texts = self._texts
        heroes = [(hero, who) for hero in texts["heroes"] for who in ("she", "he")]
        heroes += [(hero, "she") for hero in texts["girls"]] * 2 + [(hero, "he") for hero in texts["boys"]] * 2
        self._heroes = Deck(heroes, rng)
        self._things = Deck(texts["things"], rng)
        self._plots = Deck(PLOTS, rng)
        self._called = {who: Deck(names, rng) for who, names in self._names.items()}

    def talk(self) -> list[Turn]:
        cast = self._cast()
        turns = [(as_typed(self._request(cast), self._rng), self._tell(cast))]
        if self._rng.random() < 0.15:
            turns.append(self._afterwards(cast))
        return turns

    def _cast(self) -> Cast:
        hero, who = self._heroes.deal()
        name = self._called[who].deal()
        companions = [kind for kind in self._texts["heroes"] if kind != hero]
        friend_who = self._rng.choice(["she", "he"])
        friend = self._rng.choice([other for other in self._names[friend_who] if other != name])
        kind, thing, trait = self._rng.choice(companions), self._things.deal(), self._rng.choice(self._texts["traits"])
        pronouns = {"she": ("she", "her", "her"), "he": ("he", "him", "his")}
        he, him, his = pronouns[who]
        slots = {"hero": hero, "name": name, "thing": thing, "a_thing": article(thing), "a_trait": article(trait)}
        slots |= {"he": he, "him": him, "his": his, "He": capital(he), "place": self._rng.choice(self._texts["places"])}
        slots |= {"friend": friend, "friend_kind": kind, "a_friend_kind": article(kind)}
        slots |= {"friend_he": pronouns[friend_who][0], "friend_him": pronouns[friend_who][1]}
        return Cast(hero, name, thing, slots)

    def _tell(self, cast: Cast) -> str:
        texts, rng, plot = self._texts, self._rng, self._plots.deal()
        habits = [habit for habit in texts["habit"] if plot in OWN_THING or "{thing}" not in habit]
        beginning = f"{rng.choice(texts['opening'])} {rng.choice(habits)}"
        paragraphs = [beginning, *texts[plot], rng.choice(texts["ending"])]
        return "\n\n".join(expand(paragraph, rng, cast.slots) for paragraph in paragraphs)

    def _request(self, cast: Cast) -> str:
        """Ask for any story, or for one with this hero, name or thing."""
        a_hero = article(cast.hero)
        tell = "[Tell me a|Tell me a short|Write a|Write a short|Can you tell me a|I want a|Tell me a bedtime] story"
        about = [
            "",
            "",
            f" about {a_hero}",
            f" about {a_hero}",
            f" about {a_hero}",
            f" about {a_hero} named {cast.name}",
        ]
        about += [f" about {a_hero} named {cast.name}", f" about {a_hero} called {cast.name}"]
        about += [f" about {a_hero} and {article(cast.thing)}", f" with {a_hero} and {article(cast.thing)}"]
        about += [f" about {cast.name} the {cast.hero}", f" about {article(cast.thing)}", f" about {cast.name}"]
        return expand(tell, self._rng) + self._rng.choice(about) + "."

    def _afterwards(self, cast: Cast) -> Turn:
        asked = self._rng.randrange(4)
        if asked == 0:
            return "What was the name of the hero?", f"The name of the hero was {cast.name}."
        if asked == 1:
            return f"Who was {cast.name}?", f"{cast.name} was {article(cast.hero)}."
        praise = expand("[I like it!|That was nice.|What a nice story!|Great story.]", self._rng)
        return praise, "I am glad that you like it! Would you like to hear another one?"
