# SPDX-License-Identifier: Apache-2.0
"""Models carried by disk: `peng pull --export` and `--import`, with archives that other programs read and hostile ones."""
import io
import json
import subprocess
import tarfile

import pytest

from .conftest import REPO, Peng, noise, one_line
from .fake_hub import sha256


@pytest.fixture
def other(peng_binary, tmp_path, hub):
    """A second machine, which never sees the network."""
    home = tmp_path / "other"
    home.mkdir()
    peng = Peng(peng_binary, home, hub)
    peng.environment["HF_HUB_OFFLINE"] = "1"
    return peng


def export(peng, name=REPO, **options):
    archive = peng.home / "model.tar"
    assert peng("pull", name, "--export", archive, **options) == f"{archive}\n"
    return archive


def test_a_model_travels_by_disk(peng, other, hub):
    archive = export(peng)
    hub.close()
    assert other("pull", "--import", archive) == f"{other.folder()}\n"
    assert other.files() == hub.repos[REPO]
    arguments = ["complete", REPO, "-p", "hello", "--max-tokens", 4, "--temperature", 0]
    assert other(*arguments) == peng(*arguments, env={"HF_HUB_OFFLINE": "1"})
    # A model that is there is exported without the network, and gives the same bytes again.
    first = archive.read_bytes()
    assert export(other).read_bytes() == first
    with tarfile.open(archive) as tar:
        assert tar.getnames()[0] == "peng-model.json"
        assert {m.name: tar.extractfile(m).read() for m in tar if m.name != "peng-model.json"} == hub.repos[REPO]


def test_one_gguf_of_several(peng, other, hub):
    parts = {f"M-Q8_0-0000{i}-of-00002.gguf": noise(3000, i) for i in (1, 2)}
    hub.add("o/m", {"M-Q4_0.gguf": noise(2000), **parts})
    peng("pull", "o/m:Q4_0")
    peng("pull", "o/m:Q8_0")
    other("pull", "--import", export(peng, "o/m:Q8_0"))
    assert other.files("o/m") == parts


def test_export_finds_damage(peng, hub):
    peng("pull", REPO)
    file = peng.folder() / "model-00001-of-00002.safetensors"
    data = file.read_bytes()
    for bad in (data[:-1] + b"\x55", data[:-1], data + b"x"):
        file.write_bytes(bad)
        peng("pull", REPO, "--export", peng.home / "m.tar", code=3)
        assert "model-00001-of-00002.safetensors: is not the file that was pulled" in peng.errors.strip().splitlines()[-1]
        assert not (peng.home / "m.tar").exists() and list(peng.home.glob("m.tar*")) == []




def test_every_damage_is_found(peng, other, hub):
    data = export(peng).read_bytes()
    bad = other.home / "bad.tar"
    # Of an entry's 512 bytes of header, its checksum covers all; the padding behind files is nobody's.
    with tarfile.open(peng.home / "model.tar") as tar:
        places = [at for m in tar for at in (m.offset + 10, m.offset_data, m.offset_data + m.size - 1)]
    for at in places:
        bad.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        other("pull", "--import", bad, code=3)
        assert str(bad) in other.errors.strip().splitlines()[-1]
    for size in (0, 1, 511, 512, 600, 5000, len(data) // 2, places[-1]):
        bad.write_bytes(data[:size])
        other("pull", "--import", bad, code=3)
    assert not other.folder().exists() or other.files() == {}
    other("pull", "--import", other.home / "none.tar", code=2)
    assert "cannot be read" in one_line(other.errors)


def archive_of(path, files, manifest=None, members=None, repo="o/m"):
    """An archive of these files; `manifest` and `members` (TarInfo, bytes) in place of the true ones."""
    entries = [{"path": name, "size": len(data), "sha256": sha256(data)} for name, data in files.items()]
    text = json.dumps({"format": 1, "repo": repo, "hub": "", "revision": "", "commit": "", "files": entries} if manifest is None else manifest)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        head = tarfile.TarInfo("peng-model.json")
        head.size = len(text.encode())
        tar.addfile(head, io.BytesIO(text.encode()))
        for info, data in members if members is not None else [(tarfile.TarInfo(n), d) for n, d in files.items()]:
            if info.isreg():
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def kind(name, type_, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = type_, target
    return info


FILES = {"config.json": b"{}", "sub/" + "n" * 150 + ".gguf": b"x" * 700, "模型.txt": b"y"}


def test_archives_of_other_programs(other):
    other("pull", "--import", archive_of(other.home / "a.tar", FILES))
    assert other.files("o/m") == FILES


@pytest.mark.parametrize("members, words", [
    ([(tarfile.TarInfo("config.json"), b"{}")], "is missing"),
    ([(tarfile.TarInfo("config.json"), b"{}"), (tarfile.TarInfo("../evil"), b"x")], "is not in its manifest"),
    ([(tarfile.TarInfo("/tmp/evil"), b"x")], "is not in its manifest"),
    ([(tarfile.TarInfo("config.json"), b"[]")], "has SHA-256"),
    ([(tarfile.TarInfo("config.json"), b"{} ")], "another size"),
    ([(tarfile.TarInfo("config.json"), b"{}")] * 2, "there twice"),
    ([(kind("config.json", tarfile.SYMTYPE, "/etc/passwd"), b"")], "is a link"),
    ([(kind("config.json", tarfile.LNKTYPE, "peng-model.json"), b"")], "is a link"),
    ([(kind("config.json", tarfile.DIRTYPE), b"")], "no regular file"),
    ([(kind("config.json", tarfile.FIFOTYPE), b"")], "no regular file"),
    ([(kind("config.json", tarfile.CHRTYPE), b"")], "no regular file"),
])
def test_hostile_entries_are_refused(other, members, words):
    other("pull", "--import", archive_of(other.home / "a.tar", FILES, members=members), code=3)
    assert words in other.errors.strip().splitlines()[-1]
    assert not other.folder("o/m").exists() or other.files("o/m") == {}


def entry(path, size=2, digest=None):
    return {"path": path, "size": size, "sha256": digest or sha256(b"{}")}


@pytest.mark.parametrize("manifest, words", [
    ({}, "format"),
    ({"format": 2, "repo": "o/m", "files": []}, "format"),
    ({"format": 1, "repo": "../../m", "files": []}, "repo"),
    ({"format": 1, "repo": "/abs", "files": []}, "repo"),
    ({"format": 1, "repo": "o/m"}, "files"),
    ({"format": 1, "repo": "o/m", "files": [entry("../evil")]}, "evil"),
    ({"format": 1, "repo": "o/m", "files": [entry("/tmp/evil")]}, "absolute"),
    ({"format": 1, "repo": "o/m", "files": [entry(".peng/lock")]}, "keeps for itself"),
    ({"format": 1, "repo": "o/m", "files": [entry("a"), entry("a")]}, "twice"),
    ({"format": 1, "repo": "o/m", "files": [entry("a"), entry("a/b")]}, "a file and a folder"),
    ({"format": 1, "repo": "o/m", "files": [entry("a", -5)]}, "size"),
    ({"format": 1, "repo": "o/m", "files": [entry("a", 2, "zz")]}, "SHA-256"),
])
def test_hostile_manifests_are_refused(other, manifest, words):
    other("pull", "--import", archive_of(other.home / "a.tar", FILES, manifest=manifest), code=3)
    assert words in one_line(other.errors)


def test_sizes_that_no_disk_has(other):
    for sizes in ([1 << 62], [(1 << 63) - 1, (1 << 63) - 1]):
        manifest = {"format": 1, "repo": "o/m", "files": [entry(f"f{i}", size) for i, size in enumerate(sizes)]}
        other("pull", "--import", archive_of(other.home / "a.tar", FILES, manifest=manifest), code=1)
        assert "are free" in one_line(other.errors)


def test_compressed_archives_are_refused(other):
    plain = archive_of(other.home / "a.tar", FILES)
    for program in ("gzip", "xz"):
        packed = other.home / f"a.{program}"
        packed.write_bytes(subprocess.run([program, "-c", plain], check=True, capture_output=True).stdout)
        other("pull", "--import", packed, code=3)
        assert "is no archive of peng's" in one_line(other.errors)


def test_an_import_over_a_pulled_model(peng, hub):
    hub.add("o/m", {"Old-Q4_0.gguf": noise(2000)})
    peng("pull", "o/m")
    peng("pull", "--import", archive_of(peng.home / "a.tar", FILES))
    assert peng.files("o/m") == FILES
