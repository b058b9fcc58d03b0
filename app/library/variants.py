"""The GGUF variants of a repository as somebody chooses among them: their sizes, and which one suggests itself."""

from dataclasses import dataclass

from app.hub.client import HubClient
from app.hub.files import Listing, list_files
from app.hub.formats import OPENED
from app.system.background import Stop
from engine.protocol.variants import join_source

# Four bits lose little and stream fastest; then what comes nearest.
_BEST = (
    "Q4_K_M", "UD-Q4_K_XL", "Q4_K_L", "Q4_K_S", "IQ4_XS", "IQ4_NL", "Q4_0", "Q4_1", "MXFP4", "MXFP4_MOE", "Q5_K_M",
    "UD-Q5_K_XL", "Q5_K_S", "Q3_K_M", "UD-Q3_K_XL", "Q6_K", "Q8_0",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """One line. `source`: what is fetched and loaded; `name`: its number format, empty for the safetensors files.

    `bytes`: all that is fetched, 0 where the hub does not say; `file_count`: how many parts; `revision`: the commit.
    """

    source: str
    name: str
    bytes: int
    file_count: int = 1
    recommended: bool = False
    revision: str = ""


def list_variants(client: HubClient, repo: str, stop: Stop) -> tuple[VariantChoice, ...]:
    """The variants of a repository on the hub. Blocks; raises `HubError` and `Cancelled`."""
    return choices_in(list_files(client, repo, stop))


def choices_in(listing: Listing) -> tuple[VariantChoice, ...]:
    """The safetensors files, if there are any, as one choice, then the GGUF variants from small to large."""
    repo, commit = listing.row.repo, listing.row.revision
    sized = sorted((listing.download_bytes_of(each), each.name, len(each.files)) for each in listing.variants)
    best = recommended([name for _, name, _ in sized])
    choices = [
        VariantChoice(join_source(repo, name), name, size, files, name == best, commit) for size, name, files in sized
    ]
    if any(each in OPENED for each in listing.row.formats) and listing.weight_bytes:
        files = len(listing.weights)
        choices.insert(0, VariantChoice(repo, "", listing.weight_bytes, files, revision=commit))
    return tuple(choices)


def recommended(names: list[str]) -> str:
    """The variant that suggests itself among these, which are sorted by size; empty for none."""
    by_name = {name.upper(): name for name in reversed(names)}
    known = next((by_name[each] for each in _BEST if each in by_name), "")
    return known or (names[len(names) // 2] if names else "")
