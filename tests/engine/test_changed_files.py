"""A model whose files are replaced: while it is loaded, and once it is."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import save_file

from engine.engine import load
from engine.errors import Cancellation, ModelError
from engine.loading.pair import open_pair
from engine.model.model_folder import EMBEDDED_MODELS
from engine.protocol.messages import Failed, Finished, Load, Loaded
from engine.protocol.options import LoadOptions
from tests.engine.served import PATIENCE_SECONDS, Served
from tests.engine.tensor_files import read_tensors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EMBEDDED_MODELS / "demo-target", tmp_path / "model"))


def options(folder: Path) -> LoadOptions:
    return LoadOptions(target=str(folder), draft="none", device="cpu", cache_dir=str(folder.parent / "cache"))


def replace_weights(folder: Path) -> None:
    """By others of the same shapes, as an update of the model does."""
    weights, beside = folder / "model.safetensors", folder / "beside"
    save_file({name: tensor.flip(0).contiguous() for name, tensor in read_tensors(weights).items()}, beside)
    beside.replace(weights)


def test_a_load_of_files_that_are_replaced_meanwhile_fails(folder: Path) -> None:
    """Each weight is read by its place in the file, whichever file that is by then."""
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = load(1, open_pair(options(folder)), cancellation)
    for _ in range(3):
        next(steps)
    replace_weights(folder)
    with pytest.raises(ModelError, match="The files of 'model' were changed while they were loaded"):
        list(steps)
    list(load(1, open_pair(options(folder)), cancellation))


def test_a_file_that_is_gone_does_not_count_as_changed(folder: Path) -> None:
    pair = open_pair(options(folder))
    (folder / "config.json").unlink()
    assert pair.is_current


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    served.begin()
    yield served
    served.close()


def ending(served: Served, request: int, chosen: LoadOptions) -> list[type]:
    """What a load is answered with."""
    kinds: list[type] = []
    served.ours.send(Load(request, chosen))
    while not kinds or kinds[-1] not in (Finished, Failed):
        assert served.ours.poll(PATIENCE_SECONDS)
        kinds.append(type(served.ours.recv()))
    return kinds


def test_what_is_loaded_is_loaded_again_where_its_files_were_replaced(served: Served, folder: Path) -> None:
    assert len(ending(served, 1, options(folder))) > 2
    assert ending(served, 2, options(folder)) == [Loaded, Finished], "it is there"
    replace_weights(folder)
    assert len(ending(served, 3, options(folder))) > 2
    assert ending(served, 4, options(folder)) == [Loaded, Finished]
