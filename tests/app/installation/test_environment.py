"""What other programs see of the packaged window: nothing."""

import os
from pathlib import Path

import pytest

from app.installation.runtime.environment import clean_environment, engine_environment

BUNDLE = Path("/opt/coppice/_internal")


def cleaned(**variables: str) -> dict[str, str]:
    """As a packaged window would hand them on."""
    return clean_environment(variables, BUNDLE, frozen=True)


def test_library_paths_are_what_they_were_before_the_bundle_started() -> None:
    assert cleaned(LD_LIBRARY_PATH=f"{BUNDLE}{os.pathsep}/usr/lib", LD_LIBRARY_PATH_ORIG="/cuda/lib") == {
        "LD_LIBRARY_PATH": "/cuda/lib"
    }
    assert cleaned(LD_LIBRARY_PATH=str(BUNDLE)) == {}
    assert cleaned(LD_LIBRARY_PATH=f"{BUNDLE}/lib{os.pathsep}/cuda/lib") == {"LD_LIBRARY_PATH": "/cuda/lib"}
    assert cleaned(DYLD_LIBRARY_PATH=str(BUNDLE), PATH="/bin") == {"PATH": "/bin"}


def test_an_appimage_leaves_no_trace() -> None:
    assert cleaned(APPDIR="/tmp/.mount_1", LD_LIBRARY_PATH="/tmp/.mount_1/usr/lib") == {"APPDIR": "/tmp/.mount_1"}


@pytest.mark.parametrize(
    "name",
    [
        "PYTHONHOME",
        "PYTHONPATH",
        "QT_PLUGIN_PATH",
        "QT_QPA_PLATFORM",
        "QML2_IMPORT_PATH",
        "_MEIPASS2",
        "_PYI_ARCHIVE_FILE",
    ],
)
def test_what_is_pythons_and_qts_stays_here(name: str) -> None:
    assert cleaned(**{name: "/somewhere"}) == {}


def test_from_a_checkout_the_persons_own_library_path_stays() -> None:
    assert clean_environment({"LD_LIBRARY_PATH": "/cuda/lib"}, frozen=False) == {"LD_LIBRARY_PATH": "/cuda/lib"}


def test_proxies_and_homes_are_handed_on() -> None:
    kept = {"HTTPS_PROXY": "http://proxy", "HOME": "/home/ada", "HF_HOME": "/models", "CUDA_VISIBLE_DEVICES": "1"}
    assert cleaned(**kept) == kept


def test_the_engine_sees_its_own_sources_and_nobodys_packages() -> None:
    seen = engine_environment({"PYTHONPATH": "/elsewhere", "PYTHONHOME": "/bundle"})
    assert Path(seen["PYTHONPATH"], "engine", "__main__.py").is_file()
    assert seen["PYTHONNOUSERSITE"] == "1"
    assert "PYTHONHOME" not in seen
