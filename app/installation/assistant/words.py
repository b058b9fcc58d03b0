"""What is said about builds and progress, in the person's language."""

from app.i18n.number_text import size_text
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.units import time_text
from app.i18n.wording import mark
from app.installation.runtime.builds import NAMES, BuildOffer
from app.installation.runtime.progress import InstallProgress, Stage

_STAGES = {
    Stage.IDLE: mark("Nothing is being installed."),
    Stage.CHECKING: mark("Checking what is there…"),
    Stage.DOWNLOADING: mark("Downloading the engine…"),
    Stage.INSTALLING: mark("Unpacking the engine…"),
    Stage.VERIFYING: mark("Trying the engine out…"),
    Stage.PAUSED: mark("Paused. What has arrived is kept."),
    Stage.DONE: mark("The engine is ready."),
    Stage.FAILED: mark("The engine could not be installed."),
    Stage.CANCELLED: mark("Cancelled."),
}


def stage_text(stage: Stage) -> str:
    """What is being done."""
    return tr(_STAGES[stage])


def offer_text(offer: BuildOffer, is_best: bool) -> str:
    """The name of a build, and whether it is the proposed one."""
    name = tr(NAMES[offer.build])
    return tr("{build} (recommended)").format(build=name) if is_best else name


def cost_text(offer: BuildOffer, is_local: bool) -> str:
    """What a build takes."""
    values = {"disk": size_text(offer.disk_bytes(is_local)), "time": time_text(offer.seconds(is_local))}
    if is_local:
        return tr("{disk} on the disk, about {time}, nothing is downloaded").format(**values)
    values["size"] = size_text(offer.download_bytes)
    return tr("{size} to download, {disk} on the disk, about {time} at 50 Mbit/s").format(**values)


def detail_text(progress: InstallProgress) -> str:
    """Bytes, speed and time, while wheels arrive; why nothing arrives, while that is so; what was kept, afterwards."""
    fetched, is_stopped = progress.fetched, progress.stage in (Stage.PAUSED, Stage.FAILED)
    if not (progress.stage is Stage.DOWNLOADING or is_stopped) or not fetched.bytes_total:
        return ""
    values = {"done": size_text(fetched.bytes_done), "total": size_text(fetched.bytes_total)}
    if is_stopped:
        return tr("{done} of {total}").format(**values)
    if fetched.message:
        return tr("{done} of {total}. Waiting: {reason}.").format(**values, reason=translated(fetched.message))
    if fetched.seconds_left is None:
        return tr("{done} of {total}").format(**values)
    values |= {"speed": size_text(fetched.bytes_per_second), "left": time_text(fetched.seconds_left)}
    return tr("{done} of {total}, {speed}/s, {left} left").format(**values)
