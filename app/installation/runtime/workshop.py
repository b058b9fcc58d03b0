"""What runtimes are made with; apart from the making, which most starts of the window do without."""

from dataclasses import dataclass, field
from pathlib import Path

from app.downloads.dependencies import Dependencies
from app.installation.runtime.place import RuntimePlace
from app.installation.runtime.tools import Tools
from app.installation.runtime.verification import Verification


@dataclass(frozen=True, slots=True)
class Workshop:
    """The tools, and where things lie; tests replace the parts. `wheels` keeps what has arrived."""

    place: RuntimePlace
    wheels: Path
    tools: Tools
    dependencies: Dependencies = field(default_factory=Dependencies)
    verification: Verification = field(default_factory=Verification)
