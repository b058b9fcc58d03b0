"""Where an answer that is begun already goes on: behind what a chat template writes before an answer."""

from collections.abc import Callable


def place_of_answer(opening: str, whole: str, mark: str, has_control: Callable[[str], bool]) -> tuple[str, str]:
    """What stands before an answer that is begun: the prompt as it always is, and what comes between the two.

    `opening` is the conversation up to where an answer begins, `whole` the same with an answer that says `mark`, as the
    template writes it once it is said. Both mostly agree. Where they do not, the opening is right for what the model
    wrote: it went on from there, with its reasoning, which templates drop or close when they look back. But where the
    template writes control tokens between the two, such as the name of a channel, the answer cannot do without them:
    they are no text, and so were lost from it.
    """
    before, found, _ = whole.rpartition(mark)
    if not found or not before.startswith(opening):
        return opening, ""
    between = before[len(opening) :]
    if not between.strip():
        return opening, between
    return (before, "") if has_control(between) else (opening, "")
