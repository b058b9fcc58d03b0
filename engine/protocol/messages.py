"""The whole conversation between the application and the engine process: commands go down, events come up.

Every request (`Load`, `Unload`, `Generate`) has an id; ids only grow. A request ends in exactly one `Finished` or
`Failed` that carries its id. A request is cancelled when its id is at most the last `Cancel.through` of its asker.
"""

from dataclasses import dataclass, field
from typing import Literal

from engine.protocol.keeping import ForgetTexts, KeepTexts, Kept
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.protocol.pictures import Picture
from engine.protocol.residence import Residence
from engine.protocol.sentences import say
from engine.protocol.serving import Serve, Serving, ServingEnded, StopServing, Visit
from engine.protocol.tools import Tool, ToolCall, ToolChoice, WrittenCall
from engine.protocol.watching import Drafted, Inspect, Inspected, Passing, TargetLogProbs, Watch
from engine.protocol.watching import Tree as Tree  # noqa: PLC0414  # a part of `Round`, which is here

PROTOCOL = 11
UNHEARD_EXIT = 70  # the exit code of an engine that could not go on reading its commands; why is in its log

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["loaded", "unloaded", "stop", "length", "cancelled"]
FailureKind = Literal["internal", "input", "too_long", "memory", "no_model", "stopped", "lost"]
Verdict = Literal["device", "offload", "ssd", "no"]
TemplateValues = tuple[tuple[str, str | int | float | bool | None], ...]  # of a chat template's variables, by name


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation, as plain text, and the pictures in it, in their order.

    `tool_calls`: what an assistant's turn asked for; a turn of role `tool` is the result of `tool_call_id`, which
    called the tool `name`.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""
    pictures: tuple[Picture, ...] = ()


# ---- commands -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Load a pair, in place of the one loaded before. Answered by `Loading`*, `Loaded`, `Finished("loaded")`."""

    id: int
    options: LoadOptions


@dataclass(frozen=True, slots=True)
class Unload:
    """Give back the memory of the pair that is loaded, if one is. Answered by `Finished("unloaded")`, in its turn."""

    id: int


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer a conversation. Answered by `Reading`*, `Prefilled`, `Calling`* and `Round`*, `Finished`.

    Where the last message is the assistant's, the answer goes on from there; the events tell of what is new. `tools`
    may be called, as `tool_choice` has it; the answer's text then has the marks that the model puts around its calls.
    `raw` is read instead of a conversation where it is there: a text behind the token that
    begins every one, or tokens. `asker`: the number of the window that asks, whose requests are answered in order;
    those of several windows in turn. `template_values`: what else the model's chat template is told, such as whether to
    reason.
    """

    id: int
    chat: tuple[ChatMessage, ...]
    options: GenerateOptions
    tools: tuple[Tool, ...] = ()
    raw: str | tuple[int, ...] | None = None
    asker: int = 0
    template_values: TemplateValues = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel every request of an asker whose id is at most `through`; takes effect within one layer of the target.

    `asker`: as in `Generate`; 0 is the application itself, which loads pairs.
    """

    through: int
    asker: int = 0


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the engine process, also when it is busy."""


@dataclass(frozen=True, slots=True)
class Appraise:
    """Ask what a pair would take and give here, as if nothing were loaded. Answered by one `Appraised`.

    No request: it is answered beside whatever runs, soon, and is never cancelled. Instead of a model, a source in
    `options` may be a folder of facts (see `engine.model.checkpoint`).
    """

    id: int
    options: LoadOptions


@dataclass(frozen=True, slots=True)
class Count:
    """Ask how many tokens a conversation has as a prompt, and each of some texts alone. Answered by one `Counted`.

    `tools` that the answer may call are part of the prompt. No request: it is answered beside whatever runs, at once,
    and is never cancelled.
    """

    id: int
    chat: tuple[ChatMessage, ...] = ()
    texts: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()


Keeping = KeepTexts | ForgetTexts  # what is kept of texts, from now on and until now
Request = Load | Unload | Generate
Command = Request | Cancel | Shutdown | Appraise | Count | Watch | Inspect | Serve | StopServing | Keeping

# ---- events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready:
    """The process is up and reads commands; nothing is loaded yet. `protocol` must equal `PROTOCOL`."""

    protocol: int
    pid: int


@dataclass(frozen=True, slots=True)
class Loading:
    """Progress of a `Load`: `stage` is a short phrase for people, `done` of `total` steps are behind us."""

    id: int
    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a person wants to know of a loaded model. `weights`: the type of its numbers, such as 'bfloat16', or
    what its layers are decoded from for every pass, such as 'nf4' or 'FP8'. `note`: a sentence about what of it is not
    used; empty if all of it is.
    """

    source: str
    name: str
    family: str
    parameters: int
    layers: int
    bytes: int
    weights: str
    device: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class CommonTokens:
    """What a draft with another vocabulary knows of the target's tokens, each from 0 to 1.

    `of_vocabulary`: of all of them; `of_text`: of those that an ordinary text is made of, which tells more.
    """

    of_vocabulary: float
    of_text: float

    @property
    def words(self) -> str:
        """The same as a sentence; the shares are rounded down."""
        return say(
            "Common tokens: {text} % of an ordinary text, {vocabulary} % of the target's vocabulary.",
            text=int(100 * self.of_text),
            vocabulary=int(100 * self.of_vocabulary),
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """The pair is ready. `draft` is None when nothing speculates; `tiers` tells where each layer of the target is.

    `common_tokens` is None where target and draft have the same vocabulary. `small_trees`: why trees are small here, as
    far as the plan knows; empty where larger ones promise more. `reads_pictures`: the target does; otherwise
    `no_pictures` says why not, in a sentence.
    """

    id: int
    target: ModelInfo
    draft: ModelInfo | None
    context_tokens: int
    seconds: float
    tiers: tuple[str, ...] = ()
    residence: Residence | None = None
    common_tokens: CommonTokens | None = None
    small_trees: str = ""
    reads_pictures: bool = False
    no_pictures: str = ""


@dataclass(frozen=True, slots=True)
class Queued:
    """A request waits: `ahead` others, of other windows and of clients of the server, are answered before it.

    Told again as that changes; 0: its turn has come.
    """

    id: int
    ahead: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A prompt takes long to read: `part`, from 0 to 1, of what was not in the cache was read in so many `seconds`.

    At most twice a second. What a draft reads, the text that was kept, and the time that encoding pictures took are not
    counted. While one is encoded, it is the `picture`th, from 1, of so many `pictures` of the prompt that have to be.
    `cached_tokens` of its `prompt_tokens` were there already.
    """

    id: int
    part: float
    seconds: float
    picture: int = 0
    pictures: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The prompt is in the cache; `cached_tokens` of `prompt_tokens` were there already from an earlier turn."""

    id: int
    prompt_tokens: int
    cached_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Seconds:
    """Where wall time went. `decode` covers everything after prefill; `other` is decode less draft and target.

    `hidden_draft`: the part of `target` in which the draft worked while layers were awaited; `stream_wait`: the part in
    which nothing worked, for the same reason. On a GPU the target may compute earlier layers while the draft works, and
    such time is no `stream_wait`.
    """

    load: float = 0.0
    prefill: float = 0.0
    draft: float = 0.0
    target: float = 0.0
    other: float = 0.0
    decode: float = 0.0
    hidden_draft: float = 0.0
    stream_wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """One pass of the target over one tree.

    `accepted` are the node indices of the accepted path, root first; `bonus` is the token the target added and
    `bonus_piece` its text. `new_tokens` counts what the answer grew by; `text` is what is safe to show now (it can
    lag behind the tokens: a broken character or the beginning of a stop string is held back). `method` and `budget`
    are what was chosen for this round; of a tree that sizes itself `budget` is its size. `verdicts` are there if
    `Watch` asked for them.

    Of every new token in turn: `lengths` (little-endian uint32), how many characters of `text` it wrote, and
    `log_probs` (float32), the target's own, as in `TargetLogProbs`. Recordings of older versions have neither. `top`,
    if `GenerateOptions.top_log_probs` asked for it: for every new token the likeliest ones there, as (piece,
    log-probability).
    """

    id: int
    index: int
    tree: Tree
    accepted: tuple[int, ...]
    bonus: int
    bonus_piece: str
    new_tokens: int
    text: str
    seconds: Seconds
    method: str = ""
    budget: int = 0
    bytes_streamed: int = 0
    verdicts: TargetLogProbs | None = None
    lengths: bytes = b""
    log_probs: bytes = b""
    top: tuple[tuple[tuple[str, float], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Calling:
    """From character `begin` on, the text of an answer may be a call of a tool; -1: what seemed so is none.

    Told before the `Round` that writes it. Places count from where the assistant's last turn begins, in the part that
    is continued if there is one. `name`: of the tool, once the call is known to be one.
    """

    id: int
    begin: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Wrote:
    """Text that an engine elsewhere has written, which tells of no rounds. `tokens`: as far as it says, else 0."""

    id: int
    text: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of an engine elsewhere that speculates without telling its trees: how many tokens each one drafted, and
    how many of them were accepted; the target's own token behind them is not counted.
    """

    id: int
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """One answer in figures. A pass is one target forward after prefill, the first one included.

    `method` is the one used most, `budget` the median of what it was given; `note` says why, in words. Of a mixture
    that streams: `experts_used` in all passes and layers, `experts_in_place` of them multiplied as they are stored.
    `short_passes`: of trees that were smaller than wanted, or of none, for lack of memory.
    """

    method: str = "none"
    budget: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    new_tokens: int = 0
    passes: int = 0
    drafted_nodes: int = 0
    first_token_seconds: float = 0.0
    bytes_streamed: int = 0
    seconds: Seconds = field(default_factory=Seconds)
    note: str = ""
    experts_used: int = 0
    experts_in_place: int = 0
    short_passes: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether it was written without speculation, as far as is known: no pass gave more than its own token."""
        return self.method == "none" and self.new_tokens <= self.passes

    @property
    def tokens_per_pass(self) -> float:
        """Tokens the answer grew by, per target pass; 0 when there was no pass."""
        return self.new_tokens / self.passes if self.passes else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of decoding, load and prefill left out."""
        return self.new_tokens / self.seconds.decode if self.seconds.decode > 0 else 0.0

    @property
    def stream_gb_per_second(self) -> float:
        """Weights that were streamed, in 1e9 bytes per second of prefill and decoding."""
        seconds = self.seconds.prefill + self.seconds.decode
        return self.bytes_streamed / seconds / 1e9 if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The one good ending. `text` is what was still held back of the answer; `statistics` is None for a `Load`.

    `stop`: the stop string that ended it, empty where an end token did, or something else. `calls`: those that a
    complete answer makes, in places as `Calling` has them.
    """

    id: int
    reason: FinishReason
    text: str = ""
    statistics: Statistics | None = None
    stop: str = ""
    calls: tuple[WrittenCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The one bad ending: what happened, and what to do about it. Id 0 stands for the process as a whole.

    `kind`: for programs, such as what a server says to its client; `lost`: the connection to an engine elsewhere broke.
    """

    id: int
    message: str
    hint: str = ""
    kind: FailureKind = "internal"


@dataclass(frozen=True, slots=True)
class LayersAt:
    """What of a target would be in one place: `tier` is `device`, `ram` or `ssd`, `bytes` is all that is taken there.

    On the device that includes the draft, the context and the working space of a pass.
    """

    tier: str
    layers: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WayTold:
    """One way in which a pair could run: with trees of `nodes`, 0 for none, and layers on device, in RAM and on SSD.

    `words` and `bound_words` say for people what `name` and `bound` say for programs; `seconds` are those of a pass
    with its drafting, `pass_seconds` without it, and `draft_seconds` of the drafting, part of which may go on during a
    pass. `is_measured`: by rates measured on this machine.
    """

    name: str
    words: str
    tiers: tuple[int, int, int]
    nodes: int
    tokens_per_pass: float
    seconds: float
    tokens_per_second: float
    bound: str
    bound_words: str
    is_measured: bool
    pass_seconds: float = 0.0
    draft_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Appraised:
    """What a pair would take and give. `verdict` is the slowest place a pass depends on, `no` if it does not fit.

    `reason` says so in a sentence. `device` is where it would compute, `cpu` or `cuda`; `parameters` and
    `context_tokens` are the target's. Where the pair cannot be planned at all, only verdict and reason say anything.

    `ways`: what each way to run it gives; `trees` says whether a tree pays, `advice` what would be faster, and `basis`
    where the figures come from, all in sentences. `measured_at`: when rates were measured here; empty: assumed.
    `context_note`: what is unusual about the context, such as 8 bits, in a sentence. `faulty_draft`: the name of a
    draft that cannot be used with any target, which is what `reason` is about then.
    """

    id: int
    verdict: Verdict
    reason: str
    device: str = ""
    tiers: tuple[LayersAt, ...] = ()
    parameters: int = 0
    context_tokens: int = 0
    seconds_per_pass: float = 0.0
    tokens_per_pass: float = 0.0
    tokens_per_second: float = 0.0
    ways: tuple[WayTold, ...] = ()
    trees: str = ""
    advice: tuple[str, ...] = ()
    basis: str = ""
    measured_at: str = ""
    context_note: str = ""
    faulty_draft: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """How long a prompt is, 0 for a conversation that cannot be answered, and how long its context may be.

    `texts` are the lengths of the texts in their order. Without a loaded model, `context_tokens` is 0 and all the rest.
    """

    id: int
    tokens: int
    context_tokens: int
    texts: tuple[int, ...] = ()


Told = Drafted | Passing | Inspected  # about trees and passes, to those who ask
Served = Serving | ServingEnded | Visit  # about the server, to the window that switched it on
Answered = Queued | Reading | Prefilled | Calling | Round | Wrote | Steps
Event = Ready | Loading | Loaded | Answered | Finished | Failed | Appraised | Counted | Told | Served | Kept
