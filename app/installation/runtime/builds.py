"""Which builds of torch there are for a computer, which one is proposed, and why another is not; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.i18n.wording import mark
from app.installation.runtime.hardware import Hardware
from app.installation.runtime.lock import Lock
from engine.protocol.sentences import say

CUDA_DRIVER = (580,)
"""What CUDA 13.0 asks for, on Linux and on Windows."""

CUDA_CAPABILITY = (7, 5)
"""CUDA 13 left Maxwell, Pascal and Volta behind."""

ROCM_TARGETS = frozenset(
    f"gfx{each}" for each in ("90a", "942", "950", "1030", "1100", "1101", "1102", "1150", "1151", "1200", "1201")
)
"""The cards that the libraries in torch's ROCm 7.2 build have matrix kernels for; others install, then fail at once."""

TYPICAL_BYTES_PER_SECOND = 6.25e6  # 50 Mbit/s
_UNPACKED_BYTES_PER_SECOND = 60e6
_VERIFYING_SECONDS = 15.0


class Build(StrEnum):
    """What torch computes on. The values are the names of the locks."""

    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"
    METAL = "metal"


NAMES = {
    Build.CPU: mark("Processor only"),
    Build.CUDA: mark("NVIDIA (CUDA)"),
    Build.ROCM: mark("AMD (ROCm)"),
    Build.METAL: mark("Processor only"),  # torch could use Metal, the engine does not: see engine/accelerator.py
}


@dataclass(frozen=True, slots=True)
class BuildOffer:
    """One build that can be installed. `doubt` says why it would not help on this computer; None where it would."""

    build: Build
    lock: Lock
    doubt: str | None = None

    @property
    def download_bytes(self) -> int:
        """What comes over the network."""
        return self.lock.bytes

    def disk_bytes(self, is_local: bool = False) -> int:
        """What is needed while it is installed: wheels and what is unpacked; our wheels go when it is done."""
        return self.lock.installed_bytes + (0 if is_local else self.lock.bytes)

    def seconds(self, is_local: bool = False, bytes_per_second: float = TYPICAL_BYTES_PER_SECOND) -> float:
        """About how long it takes; from a folder of wheels nothing is downloaded."""
        fetching = 0.0 if is_local else self.lock.bytes / bytes_per_second
        return fetching + self.lock.installed_bytes / _UNPACKED_BYTES_PER_SECOND + _VERIFYING_SECONDS


@dataclass(frozen=True, slots=True)
class Proposal:
    """Everything that can be installed, the proposed one first, and what was found."""

    offers: tuple[BuildOffer, ...]
    found: str
    advice: str | None = None

    @property
    def best(self) -> BuildOffer | None:
        """The proposed one; None where there is none for this system at all."""
        return self.offers[0] if self.offers else None


UNKNOWN = Proposal((), say("What suits this computer could not be found out because of an error in this program."))
"""Instead of a proposal, where none could be made."""


def propose(hardware: Hardware, locks: Mapping[Build, Lock]) -> Proposal:
    """Order the builds that there are locks for: what uses the computer best comes first, what would not help last."""
    offers = [BuildOffer(build, lock, _doubt(build, hardware)) for build, lock in locks.items()]
    rank = (Build.CUDA, Build.METAL, Build.ROCM, Build.CPU)
    offers.sort(key=lambda offer: (offer.doubt is not None, rank.index(offer.build)))
    return Proposal(tuple(offers), _found(hardware), _advice(hardware, locks))


def _doubt(build: Build, hardware: Hardware) -> str | None:
    if build is Build.CUDA:
        return _cuda_doubt(hardware)
    if build is Build.ROCM:
        return _rocm_doubt(hardware)
    if build is Build.METAL and not hardware.is_apple:
        return say("This is not a Mac with an Apple processor.")
    return None


def _cuda_doubt(hardware: Hardware) -> str | None:
    if not hardware.nvidia:
        return say("No NVIDIA card was found.")
    card = hardware.nvidia[0]
    if all(each.capability and each.capability < CUDA_CAPABILITY for each in hardware.nvidia):
        return say(
            "The {card} is too old for CUDA 13: it has compute capability {has}, and {needed} is needed.",
            card=card.name,
            has=_dotted(card.capability),
            needed=_dotted(CUDA_CAPABILITY),
        )
    if hardware.driver and hardware.driver < CUDA_DRIVER:
        return say(
            "The {card} needs the NVIDIA driver {needed} or newer, and driver {has} is installed. "
            "Install a newer driver, start the computer again, then choose NVIDIA here.",
            card=card.name,
            has=_driver(hardware.driver),
            needed=_dotted(CUDA_DRIVER),
        )
    if not hardware.driver:
        return say(
            "The {card} has no NVIDIA driver. Install driver {needed} or newer, then choose NVIDIA here.",
            card=card.name,
            needed=_dotted(CUDA_DRIVER),
        )
    return None


def _rocm_doubt(hardware: Hardware) -> str | None:
    if not hardware.amd:
        return say("No AMD card that ROCm knows was found.")
    if ROCM_TARGETS.isdisjoint(hardware.amd):
        return say(
            "PyTorch for ROCm cannot compute on this AMD card ({target}): it lacks the kernels for it.",
            target=", ".join(hardware.amd),
        )
    return None


def _found(hardware: Hardware) -> str:
    if hardware.nvidia:
        return say("Found: {card}.", card=", ".join(card.name for card in hardware.nvidia))
    if hardware.is_apple:
        return say("Found: a Mac with an Apple processor.")
    if hardware.amd:
        return say("Found: an AMD card ({target}).", target=", ".join(hardware.amd))
    return say("No graphics card was found that models can compute on. The processor can do it, more slowly.")


def _advice(hardware: Hardware, locks: Mapping[Build, Lock]) -> str | None:
    """What a person could do to get more out of the computer."""
    if hardware.nvidia and Build.CUDA in locks:
        return _cuda_doubt(hardware)
    if hardware.amd and Build.ROCM in locks:
        return _rocm_doubt(hardware)
    if hardware.amd:
        return say("This Coppice brings no engine for AMD cards on this system; the processor is used.")
    return None


def _driver(version: tuple[int, ...]) -> str:
    """As NVIDIA writes it: 535.104.05."""
    return ".".join(f"{part:02}" for part in version)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
