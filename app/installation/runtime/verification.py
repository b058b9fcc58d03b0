"""The proof that a runtime works: it imports torch, and the embedded pair answers a few words with it."""

import os
from dataclasses import dataclass
from pathlib import Path

from app.downloads.control import Control
from app.installation.runtime.child import Ending, run_child
from app.installation.runtime.environment import engine_environment
from app.installation.runtime.failures import UnfitError
from app.system import json_text as json
from engine.protocol.sentences import say

_IMPORTS = "import json, torch, transformers; print(json.dumps([torch.__version__, torch.cuda.is_available()]))"
_PROMPT = "Hello!"
_TOKENS = 4
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Verification:
    """`arguments` make the engine answer; what it prints on standard output is a JSON object with a `text`."""

    imports: str = _IMPORTS
    arguments: tuple[str, ...] = ("-m", "engine", "generate", "--prompt", _PROMPT, "--json")
    limits: tuple[str, ...] = ("--max-new-tokens", str(_TOKENS), "--temperature", "0")

    def run(self, python: Path, folder: Path, control: Control) -> tuple[str, bool]:
        """The version of torch, and whether it sees a card to compute on.

        Raises `UnfitError` with the reason, `Stopped`, and `OSError`.
        """
        environment = engine_environment(os.environ) | {"HF_HUB_OFFLINE": "1"}
        told = self._run([python, "-c", self.imports], folder, environment, control)
        try:
            version, sees_card = json.loads(told)
        except (ValueError, TypeError) as error:
            raise UnfitError(say("The new engine does not tell its version."), say("Install it again.")) from error
        answer = self._run([python, *self.arguments, *self.limits], folder, environment, control)
        if not _text(answer).strip():
            raise UnfitError(say("The new engine answered nothing."), say("Install it again."))
        return str(version), sees_card is True

    def _run(self, arguments: list[str | Path], folder: Path, environment: dict[str, str], control: Control) -> str:
        try:
            ending = run_child(arguments, folder, environment, control, seconds=_SECONDS)
        except TimeoutError as error:
            raise UnfitError(
                say("The new engine did not answer in time."), say("Try again when less is going on.")
            ) from error
        if ending.code:
            raise _unfit(ending)
        return ending.output


def _text(answer: str) -> str:
    try:
        return str(json.loads(answer)["text"])
    except (ValueError, KeyError, TypeError):
        return ""


def _unfit(ending: Ending) -> UnfitError:
    last = ending.printed.splitlines()[-1][:300] if ending.printed else say("exit code {code}", code=ending.code)
    message = say("The new engine does not work on this computer: {reason}", reason=last)
    return UnfitError(message, say("Install it again, or another build."))
