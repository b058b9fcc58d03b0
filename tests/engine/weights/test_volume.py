"""The name of a volume lasts: a restart with other device numbers keeps it, and another disk has another."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.loading.measurements.rates_file import LastAnswer, RatesFile
from engine.weights.planning.volume import volume_of
from tests.engine.test_rates_file import RATES
from tests.links import make_link

pytestmark = pytest.mark.skipif(os.name != "posix", reason="mounts of POSIX")

LINE = "{number} 1 {major}:{minor} / {point} rw,relatime shared:1 - {kind} {source} rw"


class System:
    """Devices, mounts and links to UUIDs as they could be."""

    def __init__(self, folder: Path) -> None:
        self.mounts, self.by_uuid, self.devices = folder / "mountinfo", folder / "by-uuid", folder / "dev"
        self.disk = folder / "disk"
        for each in (self.by_uuid, self.devices, self.disk):
            each.mkdir()
        self.lines = [LINE.format(number=1, major=0, minor=21, point="/", kind="rootfs", source="rootfs")]

    def mount(self, device: str, kind: str, point: Path, uuid: str = "", minor: int = 1) -> None:
        """Mount a device by the name that it has this time."""
        if device.startswith("sd"):
            (self.devices / device).touch()
            device = str(self.devices / device)
        place = str(point).replace(" ", "\\040")
        self.lines.append(LINE.format(number=2, major=8, minor=minor, point=place, kind=kind, source=device))
        if uuid:
            make_link(self.by_uuid / uuid, os.path.relpath(device, self.by_uuid))

    def name(self, path: Path | None = None) -> str:
        """What the disk is called."""
        self.mounts.write_text("\n".join(self.lines) + "\n")
        return volume_of(path or self.disk, self.mounts, self.by_uuid)


def restarted(tmp_path: Path, number: int) -> System:
    folder = tmp_path / str(number)
    folder.mkdir()
    return System(folder)


def test_a_file_system_is_known_by_its_uuid_whatever_its_device_is_called(tmp_path: Path) -> None:
    before, after = restarted(tmp_path, 1), restarted(tmp_path, 2)
    before.mount("sda1", "xfs", before.disk, "aaaa-1", minor=1)
    before.mount("sdb1", "xfs", tmp_path / "other", "bbbb-2", minor=17)
    after.mount("sdb1", "xfs", after.disk, "aaaa-1", minor=17)
    after.mount("sda1", "xfs", tmp_path / "other", "bbbb-2", minor=1)
    assert before.name() == after.name() == "uuid aaaa-1"
    assert before.name(tmp_path / "other" / "not" / "there") == "rootfs rootfs at /", "what is not there yet"
    (tmp_path / "other").mkdir()
    assert before.name(tmp_path / "other" / "not" / "there") == after.name(tmp_path / "other") == "uuid bbbb-2"


def test_without_a_uuid_the_file_system_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = restarted(tmp_path, 1)
    system.mount("sda1", "ext4", system.disk)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_fsid=0xABC))
    assert system.name() == "ext4 abc"
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_fsid=0))
    assert system.name() == f"ext4 {system.devices / 'sda1'} at {system.disk}"


def test_a_share_is_known_by_its_server(tmp_path: Path) -> None:
    system = restarted(tmp_path, 1)
    system.mount("server:/models", "nfs4", system.disk)
    assert system.name() == f"nfs4 server:/models at {system.disk}"


def test_the_deepest_and_the_last_mount_count(tmp_path: Path) -> None:
    system = restarted(tmp_path, 1)
    inner = system.disk / "with blanks"
    inner.mkdir()
    system.mount("sdc1", "xfs", inner, "inner")
    system.mount("sda1", "xfs", system.disk, "hidden")
    system.mount("sdb1", "xfs", system.disk, "shown")
    assert (system.name(), system.name(inner)) == ("uuid shown", "uuid inner")


def test_a_link_leads_to_the_disk_that_it_points_to(tmp_path: Path) -> None:
    system = restarted(tmp_path, 1)
    system.mount("sda1", "xfs", system.disk, "there")
    make_link(tmp_path / "link", system.disk)
    assert system.name(tmp_path / "link" / "new") == "uuid there"


@pytest.mark.parametrize("content", [None, "", "nonsense\n", "1 2 3 - \n", " - ext4 /dev/sda\n"])
def test_without_a_table_of_mounts_the_place_of_the_mount_tells(tmp_path: Path, content: str | None) -> None:
    mounts = tmp_path / "mountinfo"
    if content is not None:
        mounts.write_text(content)
    assert volume_of(tmp_path, mounts, tmp_path / "none").startswith("mounted at /")


def test_what_cannot_be_looked_at_is_on_the_disk_of_what_can(tmp_path: Path) -> None:
    """As the folder of another user; names that are too long fail for everybody."""
    assert volume_of(tmp_path / ("long" * 100) / "cache") == volume_of(tmp_path)


def test_this_machine_has_names_for_its_own_disks(tmp_path: Path) -> None:
    assert volume_of(tmp_path) == volume_of(tmp_path / "not" / "there")
    assert f"{tmp_path.stat().st_dev}" not in volume_of(tmp_path).split()


def test_what_was_kept_before_still_opens(tmp_path: Path) -> None:
    file = RatesFile(tmp_path)
    file.remember("a processor | disk 65024 | bfloat16", RATES)
    file.remember_answer("a pair", LastAnswer(3.0, 0.5))
    file.remember(f"a processor | disk {volume_of(tmp_path)} | bfloat16", RATES)
    again = RatesFile(tmp_path)
    assert again.recall("a processor | disk 65024 | bfloat16") is not None
    assert again.recall_answer("a pair") == LastAnswer(3.0, 0.5)
