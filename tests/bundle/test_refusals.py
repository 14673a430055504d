"""A bundle that is not what was written, or what no bundle may be, is refused in words."""

import json
import os
import struct
import tracemalloc
import zipfile
from io import BytesIO

import pytest
import torch
from safetensors.torch import save

from fedlore.bundle import read_bundle, write_bundle
from fedlore.bundle.archive import _COMMENT, MANIFEST, _comment_of, manifest_of, write_members
from fedlore.bundle.networks import check_room
from fedlore.errors import FedloreError

from .making import bundle

MADE = bundle()


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "a.lore"
    write_bundle(MADE, path)
    return path.read_bytes()


def changed(**members: bytes) -> dict[str, bytes]:
    """The members with some replaced, to be written with a manifest that fits them."""
    return {**MADE.members, **{n.replace("__", "."): b for n, b in members.items()}}


def header(**values: object) -> bytes:
    said = json.loads(MADE.members["bundle.json"])
    return json.dumps({**said, **values}).encode()


def sealed(data: bytes) -> bytes:
    """A zip with the end that fedlore writes, whoever made it."""
    room = BytesIO(data)
    with zipfile.ZipFile(room, "a") as archive:
        archive.comment = b" " * _COMMENT
    body = room.getvalue()[:-_COMMENT]
    return body + _comment_of(body)


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    room = BytesIO()
    with zipfile.ZipFile(room, "w", kind) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return sealed(room.getvalue())


def refused(path, words: str) -> None:
    with pytest.raises(FedloreError, match=words):
        read_bundle(path)


def test_one_byte_changed_anywhere_is_found(tmp_path, packed):
    path = tmp_path / "a.lore"
    for place in range(0, len(packed), max(1, len(packed) // 300)):
        data = bytearray(packed)
        data[place] ^= 1
        path.write_bytes(data)
        refused(path, "damaged|not a fedlore bundle")
    path.write_bytes(packed)
    read_bundle(path)


@pytest.mark.parametrize("name", [*MADE.members, MANIFEST])
def test_one_byte_changed_in_a_folder_is_found(tmp_path, name):
    write_bundle(MADE, tmp_path / "a")
    place = tmp_path / "a" / name
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    refused(tmp_path / "a", "damaged")


@pytest.mark.parametrize("cut", [0, 10, 200, 1000])
def test_a_cut_file_is_refused(tmp_path, packed, cut):
    (tmp_path / "a.lore").write_bytes(packed[:cut])
    refused(tmp_path / "a.lore", "not a fedlore bundle")


def test_missing_and_extra_members_are_refused(tmp_path):
    write_bundle(MADE, tmp_path / "a")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    refused(tmp_path / "a", "'notes.txt' is not in its manifest")
    (tmp_path / "a" / "notes.txt").unlink()
    (tmp_path / "a" / "table-1.csv").unlink()
    refused(tmp_path / "a", "'table-1.csv' is missing")
    write_members(changed(notes__txt=b"mine"), tmp_path / "b")
    refused(tmp_path / "b", "no member 'notes.txt'")
    for name in ("bundle.json", "weights.safetensors", "card.md", "knowledge.toml"):
        write_members({n: b for n, b in MADE.members.items() if n != name}, tmp_path / "c.lore")
        refused(tmp_path / "c.lore", f"has no {name}")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/b", "..", "C:\\evil", "a\\b", ".x"])
def test_names_that_leave_the_folder_are_refused(tmp_path, name):
    whole = {**MADE.members, MANIFEST: manifest_of(MADE.members), name: b"x"}
    (tmp_path / "a.lore").write_bytes(zipped(whole))
    refused(tmp_path / "a.lore", "not a plain file name")
    assert os.listdir(tmp_path) == ["a.lore"]


def test_links_are_refused(tmp_path):
    room = BytesIO()
    with zipfile.ZipFile(room, "w") as archive:
        link = zipfile.ZipInfo("card.md")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    (tmp_path / "a.lore").write_bytes(sealed(room.getvalue()))
    refused(tmp_path / "a.lore", "is a link")
    write_bundle(MADE, tmp_path / "a")
    (tmp_path / "a" / "card.md").unlink()
    (tmp_path / "a" / "card.md").symlink_to("/etc/hosts")
    refused(tmp_path / "a", "not a plain file")


def test_a_bomb_of_ten_gigabytes_is_refused_without_memory(tmp_path):
    parts = {f"part-{i}": b"\0" * 1_000_000 for i in range(3)}
    bomb = bytearray(zipped(parts, zipfile.ZIP_DEFLATED)[:-_COMMENT])
    place = 0
    while (place := bomb.find(b"PK\x01\x02", place)) >= 0:
        bomb[place + 24 : place + 28] = struct.pack("<L", 0xE0000000)  # each declares 3.5 GB
        place += 4
    (tmp_path / "bomb.lore").write_bytes(bytes(bomb) + _comment_of(bytes(bomb)))
    tracemalloc.start()
    refused(tmp_path / "bomb.lore", "its members declare 11274289152 bytes, 1073741824 at most")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


def test_a_compressed_member_is_refused(tmp_path):
    whole = {**MADE.members, MANIFEST: manifest_of(MADE.members)}
    (tmp_path / "a.lore").write_bytes(zipped(whole, zipfile.ZIP_DEFLATED))
    refused(tmp_path / "a.lore", "is compressed")
    (tmp_path / "b.lore").write_bytes(zipped(whole))
    assert read_bundle(tmp_path / "b.lore").fingerprint == MADE.fingerprint


def test_a_zip_with_an_endless_list_is_refused(tmp_path):
    data = bytearray(zipped({"card.md": b""})[:-_COMMENT])
    data[-10:-6] = struct.pack("<L", 50 << 20)  # the size of the list
    (tmp_path / "a.lore").write_bytes(bytes(data) + _comment_of(bytes(data)))
    refused(tmp_path / "a.lore", "list of members is too long")


def test_a_list_cannot_hide_behind_a_false_end(tmp_path):
    """The end that is measured must be the one that a reader of zips goes by."""
    data = zipped({f"m{i}": b"" for i in range(5)})[:-_COMMENT]
    false = data + bytes(22)  # reads as an empty list; the true end has a longer comment
    place = len(data) - 2
    body = false[:place] + struct.pack("<H", 22 + _COMMENT) + false[place + 2 :]
    (tmp_path / "a.lore").write_bytes(body + _comment_of(body))
    refused(tmp_path / "a.lore", "the zip ends twice")


def test_a_network_that_blows_up_one_row_is_refused_without_computing_it():
    wide = {"in_channels": 1, "out_channels": 1, "kernel_size": [1, 1], "padding": [9**6, 9**6]}
    parts = [{"layer": "as_image"}, {"layer": "conv2d", **wide}, {"layer": "flatten"}]
    with pytest.raises(FedloreError, match="67108864 numbers for a row, a Conv2d gives 11297"):
        check_room({"layer": "sequential", "parts": parts}, (2, 2))


NAN = save(
    {
        **{k: v for k, v in MADE.personal.model.state_dict().items()},
        "body.1.0.bias": torch.full((8,), torch.nan),
    }
)
OTHER = save(
    {**{k: v for k, v in MADE.personal.model.state_dict().items()}, "body.1.0.bias": torch.zeros(9)}
)
DEEP: dict = {"layer": "relu"}
for _ in range(30):
    DEEP = {"layer": "sequential", "parts": [DEEP]}
SCALING = {"shift": [0.0, 0.0], "spread": [1.0, 0.0]}


def flattened(layer):
    """The network with a last dimension for its flatten that is no dimension at all."""
    if isinstance(layer, list):
        return [flattened(one) for one in layer]
    if not isinstance(layer, dict):
        return layer
    inner = {key: flattened(value) for key, value in layer.items()}
    return inner | ({"end_dim": 3e38} if inner.get("layer") == "flatten" else {})


WRONG = {
    "newer": ({"bundle__json": header(format=5)}, r"format 5, fedlore \S+ reads format 4"),
    "older": ({"bundle__json": header(format=3)}, "export it again with this version"),
    "no format": ({"bundle__json": header(format="x")}, "format 'x'"),
    "no json": ({"bundle__json": b"{"}, "not readable"),
    "unknown key": ({"bundle__json": header(formt=1)}, "unknown key 'formt'"),
    "no layer": ({"bundle__json": header(model={"layer": "pickle"})}, "unknown layer 'pickle'"),
    "odd layer": (
        {"bundle__json": header(model={"layer": "linear", "x": 1})},
        "setting of a linear",
    ),
    "no whole number": (
        {"bundle__json": header(model=flattened(json.loads(MADE.members["bundle.json"])["model"]))},
        "cannot take a row",
    ),
    "deep": ({"bundle__json": header(model=DEEP)}, "layers, 20 inside each other"),
    "trust": ({"bundle__json": header(trust=0.9)}, "differ in their trust"),
    "task": ({"bundle__json": header(task="regression")}, "differ in their task"),
    "shape": ({"bundle__json": header(shape=[3])}, "differ in their shape"),
    "less than nothing": ({"bundle__json": header(shape=[-1, -2])}, "differ in their shape"),
    "no shape": ({"bundle__json": header(shape=[])}, "differ in their shape"),
    "hears": ({"bundle__json": header(hears=True)}, "whether the expert is an input"),
    "spread": ({"bundle__json": header(scaling=SCALING)}, "positive spread"),
    "short": (
        {"bundle__json": header(scaling={"shift": [0.0], "spread": [1.0]})},
        "scaling has shapes",
    ),
    "confusion": ({"bundle__json": header(confusion=[[1.0]])}, "3 rows of 3"),
    "nan": ({"weights__safetensors": NAN}, "finite: 'body.1.0.bias'"),
    "other": ({"weights__safetensors": OTHER}, "'body.1.0.bias' should have shape"),
    "torn": ({"weights__safetensors": b"\x80\x04."}, "weights.safetensors cannot be read"),
    "code": (
        {
            "knowledge__toml": b"entry_points = true\n"
            + MADE.members["knowledge.toml"].replace(b"entry_points = false\n", b"")
        },
        "holds no code",
    ),
    "elsewhere": (
        {"knowledge__toml": MADE.members["knowledge.toml"].replace(b"table-1.csv", b"/etc/hosts")},
        "names the file '/etc/hosts', which is missing",
    ),
    "rules": ({"table-1__csv": b"ash,then\n> x,C\n"}, "table-1.csv"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_inside_is_said(tmp_path, name):
    members, words = WRONG[name]
    write_members(changed(**members), tmp_path / "a.lore")
    refused(tmp_path / "a.lore", words)


def test_what_is_no_bundle_is_refused(tmp_path):
    refused(tmp_path / "absent.lore", "cannot read")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no manifest.sha256")
    (tmp_path / "text.lore").write_text("hello " * 100)
    refused(tmp_path / "text.lore", "not a fedlore bundle")


@pytest.mark.parametrize("place", ["a.lore", "a"])
def test_a_failed_write_leaves_the_old_one(tmp_path, monkeypatch, place):
    path = tmp_path / place
    write_bundle(MADE, path)
    before, other = read_bundle(path).fingerprint, bundle(seed=5)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FedloreError, match="No space left on device; what was there before"):
        write_bundle(other, path)
    monkeypatch.undo()
    assert read_bundle(path).fingerprint == before
    assert os.listdir(tmp_path) == [place]
    write_bundle(other, path)
    assert read_bundle(path).fingerprint != before
    assert os.listdir(tmp_path) == [place]


def test_a_folder_that_cannot_take_its_name_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_bundle(MADE, path)
    before, rename, calls = read_bundle(path).fingerprint, os.rename, []

    def second_fails(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(13, "Permission denied")
        rename(source, target)

    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(FedloreError, match="Permission denied; what was there before is safe"):
        write_bundle(bundle(seed=5), path)
    assert read_bundle(path).fingerprint == before
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_stands_there_twice_is_refused(tmp_path):
    room = BytesIO()
    with zipfile.ZipFile(room, "w") as archive:
        for name, data in [*MADE.members.items(), ("card.md", b"another")]:
            archive.writestr(name, data)
    (tmp_path / "a.lore").write_bytes(sealed(room.getvalue()))
    refused(tmp_path / "a.lore", "it holds a member twice")


def test_a_folder_that_is_no_bundle_is_never_replaced(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_text("x")
    with pytest.raises(FedloreError, match="is not a fedlore bundle: choose another name"):
        write_bundle(MADE, tmp_path / "photos")
    assert (tmp_path / "photos" / "me.jpg").exists()
    write_bundle(MADE, tmp_path / "a")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    with pytest.raises(FedloreError, match="is not a fedlore bundle: choose another name"):
        write_bundle(MADE, tmp_path / "a")
    assert (tmp_path / "a" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("place", ["a.lore", "a"])
def test_files_get_the_rights_that_the_user_sets(tmp_path, place):
    before = os.umask(0o077)
    try:
        write_bundle(MADE, tmp_path / place)
    finally:
        os.umask(before)
    made = [tmp_path / place, *(tmp_path / place).glob("*")]
    assert not any(path.stat().st_mode & 0o077 for path in made)
