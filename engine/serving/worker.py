"""Works at one job after the other: loads pairs, answers, and turns whatever fails into an event."""

import gc
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from engine.errors import (
    Cancellation,
    Cancelled,
    CoppiceError,
    InputError,
    NoModel,
    TooLong,
    UnreadableError,
    UnrunnableError,
)
from engine.loading.out_of_memory import give_back_freed, out_of_memory_of
from engine.observing.watcher import Watcher
from engine.protocol.keeping import KeepTexts, Kept
from engine.protocol.libraries import library_failure
from engine.protocol.messages import Event, Failed, FailureKind, Finished, Generate, Load, Unload
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import say
from engine.serving.desk import Desk, Job

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.loading.compiling.ahead import Ahead

SETTLED_SECONDS = 0.2  # without a request behind a load: who loads in order to ask has asked by then
REST_SECONDS = 2.0  # without a request, before what was read is written to disk
QUIET_SECONDS = 5.0  # more, before loops are compiled for what may be loaded next

KINDS: dict[type[CoppiceError], FailureKind] = {
    NoModel: "no_model",
    TooLong: "too_long",
    UnreadableError: "internal",
    UnrunnableError: "internal",
    InputError: "input",
}


class Worker:
    """The one who asks the engine. `watcher` is told of the rounds that windows asked for."""

    def __init__(
        self,
        desk: Desk,
        cancellation: Cancellation,
        watcher: Watcher,
        reading: "Future[None]",
        tell_kept: Callable[[Kept], None] = lambda _kept: None,
        compiles_ahead: bool = False,
    ) -> None:
        """`reading` is done as soon as what loading and answering need has been imported, or could not be.

        `tell_kept` hears what became of texts that are kept on disk. `compiles_ahead`: while nobody asks anything,
        loops are compiled for other models than the one that is loaded, see `loading.compiling.ahead`.
        """
        self.keeping = KeepTexts(0)  # may be replaced at any time, from any thread
        self._kept_by = KeepTexts(0)  # what the loaded engine was told
        self._tell_kept = tell_kept
        self._desk = desk
        self._cancellation = cancellation
        self._watcher = watcher
        self._reading = reading
        self._has_worked = False  # since memory was given back
        self._is_new = False  # what is loaded has not answered yet
        self._compiles_ahead = compiles_ahead
        self._ahead: Ahead | None = None

    def run(self) -> None:
        """Take jobs for ever."""
        while True:
            if self._is_new and self._desk.is_quiet(SETTLED_SECONDS):
                self.rehearse()
            while self._desk.is_quiet(REST_SECONDS) and not self.rest():
                pass  # something was to be forgotten meanwhile
            engine = self._desk.engine
            if self._compiles_ahead and engine and self._desk.is_quiet(QUIET_SECONDS):
                self._compile_ahead(engine.options)
            del engine  # which would be held as long as nobody asks
            job = self._desk.take()
            if self._ahead:
                self._ahead.stop()
            self.work(job)

    def _compile_ahead(self, options: LoadOptions) -> None:
        """Nobody asks: have loops compiled for what may be loaded next."""
        from engine.loading.compiling.ahead import Ahead  # noqa: PLC0415  # torch, which is read by now
        from engine.loading.compiling.needed import computes_narrow  # noqa: PLC0415
        from engine.loading.store import compiled_folder  # noqa: PLC0415
        from engine.model.device import choose_device  # noqa: PLC0415

        try:
            device = choose_device(options.device)
            if device.type == "cpu":  # others compute without these loops
                self._ahead = self._ahead or Ahead()
                self._ahead.start(compiled_folder(options), computes_narrow(options, device))
        except Exception as error:  # noqa: BLE001  # the next load compiles them; answers must go on
            traceback.print_exception(error)

    def rehearse(self) -> None:
        """Nobody asks what was just loaded: have it ready for the first answer, until somebody does."""
        engine, self._is_new = self._desk.engine, False
        if engine is None:
            return
        self._cancellation.begin(0, lambda: self._desk.waiting > 0)
        try:
            engine.rehearse(self._make_way)
        except Cancelled:
            pass
        except Exception as error:  # noqa: BLE001  # the pair is loaded all the same; the first answer tells why
            traceback.print_exception(error)

    def rest(self) -> bool:
        """Nobody asks: write what was read to disk, if it is to be kept, until somebody does; whether all is done.

        Memory that answers took is given back, once behind them.
        """
        if self._has_worked:
            self._has_worked = False
            give_back_freed()
        engine, has_written, note = self._desk.engine, False, ""
        if engine is None or not self._tell_keeping(engine).most_bytes:
            return True
        try:
            has_written = engine.rest(self._make_way)
            note = engine.kept_complaint
        except Cancelled:
            return False
        except Exception as error:  # noqa: BLE001  # what was not kept is read again; answers must go on
            note = failed_by(0, error).message
        if has_written or note:
            self._tell_kept(Kept(engine.kept_bytes, note))
        return True

    def _tell_keeping(self, engine: "Engine") -> KeepTexts:
        """Have the engine know what is wanted by now, in the thread that it works in; returns that."""
        if self.keeping != self._kept_by:
            self._kept_by = self.keeping
            engine.keep_on_disk(self._kept_by.cache_dir, self._kept_by.most_bytes)
        return self._kept_by

    def _make_way(self) -> None:
        if self._desk.waiting:
            raise Cancelled

    def work(self, job: Job) -> None:
        """One job, which ends in exactly one `Finished` or `Failed`."""
        request, self._has_worked = job.request, True
        self._cancellation.begin(request.id, job.is_unwanted, job.asker)
        try:
            for event in self._events(job):
                if isinstance(event, Finished):
                    self._cancellation.begin(request.id)  # who has all of it may leave: what it taught is kept
                job.tell(event)
        except Cancelled:
            job.tell(Finished(request.id, "cancelled"))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # the one place where any failure becomes an event
            job.tell(failed_by(request.id, error))

    def _events(self, job: Job) -> Iterator[Event]:
        self._cancellation.check()
        self._reading.result()
        from engine.engine import load  # noqa: PLC0415  # torch, which is read by now
        from engine.loading.pair import open_pair  # noqa: PLC0415

        request, engine = job.request, self._desk.engine
        if isinstance(request, Load):
            if engine and engine.options == request.options and engine.is_current:
                yield from (engine.describe(request.id, seconds=0.0), Finished(request.id, "loaded"))
                return
            pair = open_pair(request.options)  # what is loaded stays until the new pair is known to be usable
            del engine
            self._unload()
            self._kept_by = KeepTexts(0)
            self._desk.engine = yield from load(request.id, pair, self._cancellation, keeps_texts=True)
            _freeze()
            self._is_new = True
            return
        if isinstance(request, Unload):
            del engine
            self._unload()
            self._is_new = False
            yield Finished(request.id, "unloaded")
            return
        engine = self._desk.engine_for(job.made_for)
        self._is_new = False
        self._tell_keeping(engine)
        yield from self._answer(engine, request, job)

    def _answer(self, engine: "Engine", request: Generate, job: Job) -> Iterator[Event]:
        watcher = self._watcher if job.is_of_window else Watcher(job.tell, request.options.verdicts)

        def answer(asked: Generate) -> Iterator[Event]:
            prompt = engine.prompt_of(asked)
            return engine.generate(asked.id, prompt, asked.options, watcher)

        if not request.tools:
            return answer(request)
        from engine.observing.call_events import answer_with_calls  # noqa: PLC0415  # torch's, which is read by now

        # A client's tools were prepared before their turn, in another thread.
        return answer_with_calls(
            request, engine.tokenizer, engine.reasoning_marks, answer, is_held=not job.is_of_window
        )

    def _unload(self) -> None:
        engine, self._desk.engine = self._desk.engine, None  # nobody finds one there that is being closed
        if engine:
            engine.close()
            gc.unfreeze()
        del engine
        _freeze()  # a model and its hooks hold each other; the next one needs their memory now


def _freeze() -> None:
    """Collect what is garbage, and have later collections pass over what is left.

    They would walk through all of torch and of a model, for 0.4 s, in which no thread answers anybody.
    """
    gc.collect()
    gc.freeze()


def failed_by(request: int, error: BaseException) -> Failed:
    """How a request ends that raised `error`."""
    if shortage := out_of_memory_of(error, say("this request")):
        traceback.print_exception(shortage)  # with what the allocator said, for the log
        return Failed(request, shortage.message, shortage.hint, "memory")
    if isinstance(error, CoppiceError):
        if isinstance(error, UnreadableError):
            traceback.print_exception(error)  # for the log: clients are told nothing of files
        kinds = (kind for of, kind in KINDS.items() if isinstance(error, of))
        return Failed(request, error.message, error.hint, next(kinds, "internal"))
    traceback.print_exception(error)
    if failure := library_failure(str(error)):
        return Failed(request, failure.message, failure.hint)
    words = str(error).strip().splitlines()
    detail = words[0][:300] if words else type(error).__name__
    message = say("The engine met an unexpected error: {reason}", reason=detail)
    return Failed(request, message, say("Details are in the engine's log."))
