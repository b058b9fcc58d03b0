"""Where the hub is and where its cache lies, as HF_ENDPOINT, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE say."""

from dataclasses import dataclass
from pathlib import Path

CACHE_PREFIX = "models--"  # of a model's folder in the cache


@dataclass(frozen=True, slots=True)
class HubPlace:
    """The hub's address without a slash at its end, the folder of its cache, and whether it must not be asked."""

    endpoint: str
    cache: Path
    is_offline: bool = False
    symlinks: bool = True

    def folder(self, repo_id: str) -> Path:
        """A model's folder in the cache."""
        return self.cache / f"{CACHE_PREFIX}{repo_id.replace('/', '--')}"


def hub_place() -> HubPlace:
    """What the environment said when the hub client was imported: the same as for every other tool."""
    from huggingface_hub import constants  # noqa: PLC0415  # takes a fifth of a second; the window opens without it

    return HubPlace(
        endpoint=constants.ENDPOINT.rstrip("/"),
        cache=Path(constants.HF_HUB_CACHE),
        is_offline=constants.is_offline_mode(),
        symlinks=not constants.HF_HUB_DISABLE_SYMLINKS,
    )
