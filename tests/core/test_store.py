"""Files that are replaced whole, and tensors in a format that others read."""

import errno
import os
import stat

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError
from fedlore.core import store, tree
from fedlore.core.history import read_rows, write_rows
from fedlore.core.store import (
    TENSOR_KINDS,
    Unreadable,
    pack_payload,
    pack_tensors,
    replacing,
    unpack_payload,
    unpack_tensors,
    write_private,
    write_whole,
)

BUNDLE = {
    **{f"of {word}": torch.arange(3).to(kind) for word, kind in TENSOR_KINDS.items()},
    'é "quoted"\n': torch.randn(2, 3),
    "number": torch.tensor(1.5),
    "nothing": torch.empty(0, 4),
}


def same(a, b):
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a
    )


def test_the_bytes_are_those_of_the_safetensors_library():
    assert pack_tensors(BUNDLE) == safetensors.torch.save(BUNDLE)
    assert pack_tensors({}) == safetensors.torch.save({})
    told = {"about": "π"}
    assert pack_tensors(BUNDLE, told) == safetensors.torch.save(BUNDLE, told)


def test_each_reads_what_the_other_wrote():
    assert same(unpack_tensors(safetensors.torch.save(BUNDLE, {"a": "b"}))[0], BUNDLE)
    assert same(safetensors.torch.load(pack_tensors(BUNDLE)), BUNDLE)
    assert unpack_tensors(pack_tensors(BUNDLE, {"a": "b"}))[1] == {"a": "b"}


@pytest.mark.parametrize("kind", [torch.complex64, torch.float8_e4m3fn])
def test_a_kind_that_the_format_lacks_is_refused_by_name(kind):
    with pytest.raises(FedloreError, match="'w' holds torch"):
        pack_tensors({"w": torch.zeros(2).to(kind)})


def header(text):
    return len(text).to_bytes(8, "little") + text.encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "longer than the file"),
        ((99).to_bytes(8, "little") + b"{}", "longer than the file"),
        (header("[]"), "cannot be read"),
        (header("{"), "cannot be read"),
        (header("[" * 100_000), "cannot be read"),
        (header('{"__metadata__":{"a":1}}'), "not text"),
        (header('{"w":{"dtype":"F32","shape":[1]}}'), "cannot be read"),
        (header('{"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}') + b"\0" * 4, "F99"),
        (header('{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}') + b"\0" * 4, "whole"),
        (header('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}') + b"\0" * 4, "'w' does"),
        (header('{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}') + b"\0" * 8, "'w' does"),
        (header('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}') + b"\0" * 4, "'w' does"),
        (header('{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}') + b"\0" * 5, "1 bytes"),
        (header('{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{}}'), "twice"),
    ],
)
def test_nothing_in_a_file_is_believed(data, says):
    with pytest.raises(Unreadable, match=says):
        unpack_tensors(data)


def test_two_tensors_never_share_bytes():
    entry = '{"dtype":"U8","shape":[2],"data_offsets":[0,2]}'
    with pytest.raises(Unreadable, match="does not lie"):
        unpack_tensors(header(f'{{"a":{entry},"b":{entry}}}') + b"\0\0")


PAYLOAD = {"model": {"z": torch.randn(3), "a": torch.ones(2).long()}, "empty": {}}


def test_a_payload_comes_back_in_its_order_with_what_is_said_of_it():
    about, found = unpack_payload(pack_payload(PAYLOAD, {"round": 3, "why": "π"}))
    assert about == {"round": 3, "why": "π"}
    assert list(found) == ["model", "empty"] and list(found["model"]) == ["z", "a"]
    assert same(found["model"], PAYLOAD["model"]) and found["empty"] == {}


def test_other_tools_read_a_payload(tmp_path):
    write_whole(tmp_path / "w.safetensors", pack_payload(PAYLOAD, {}))
    with safetensors.safe_open(str(tmp_path / "w.safetensors"), "pt") as file:
        assert set(file.keys()) == {"model/a", "model/z"}
        assert torch.equal(file.get_tensor("model/z"), PAYLOAD["model"]["z"])


@given(st.integers(0, 10**6), st.sampled_from(["cut", "flip", "more"]))
def test_any_harm_to_a_payload_is_noticed(place, harm):
    data = bytearray(pack_payload(PAYLOAD, {"round": 1}))
    if harm == "cut":
        data = data[: place % len(data)]
    elif harm == "flip":
        data[place % len(data)] ^= 1 << (place % 8)
    else:
        data += b"\0"
    with pytest.raises(Unreadable):
        unpack_payload(bytes(data))


def test_a_bundle_with_a_stroke_in_its_name_is_refused():
    with pytest.raises(FedloreError, match="without '/', got 'a/b'"):
        pack_payload({"a/b": {}}, {})
    flat = tree.flatten(PAYLOAD)
    assert set(flat) == {"model/z", "model/a"} and same(tree.nest(flat)["model"], PAYLOAD["model"])


def test_a_file_is_old_or_new_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "f"
    write_whole(path, "old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"half of the n")
        1 / 0  # noqa: B018
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    write_whole(path, b"new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "f"
    write_whole(path, "old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_bytes_and_name_are_on_the_disk_before_the_writer_goes_on(tmp_path, monkeypatch):
    seen, real = [], os.replace

    def synced(handle):
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")

    def named(part, path):
        seen.append("name")
        real(part, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    write_whole(tmp_path / "f", "x")
    assert seen == ["file", "name", "folder"]
    seen.clear()
    write_whole(tmp_path / "f", "y", sync=False)
    assert seen == ["name"]


def test_a_private_file_is_its_owners_from_the_first_byte(tmp_path):
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    with replacing(path, private=True) as file:
        (part,) = tmp_path.glob(".key.*.part")
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        file.write(b"secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_private(path, b"other")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_bytes() == b"other"


def test_what_a_killed_writer_left_is_cleared(tmp_path):
    for name in (".round-1.ab12.part", ".other.ab12.part", "round-1"):
        (tmp_path / name).write_text("x")
    store.clear_parts(tmp_path, "round-*")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".other.ab12.part", "round-1"]


def test_rows_come_back_as_they_went(tmp_path):
    rows = [{"a": 1, "b": "x", "c": 0.5, "d": None}, {"a": 2}]
    write_rows(rows, tmp_path / "new" / "rows.jsonl")
    assert read_rows(tmp_path / "new" / "rows.jsonl") == rows


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_rows([{"a": 1}], path)

    def broken():
        yield {"a": 2}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_rows(broken(), path)
    with pytest.raises(ValueError):
        write_rows([{"a": float("nan")}], path)
    assert read_rows(path) == [{"a": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FedloreError, match="cannot write to .*file"):
        write_rows([], tmp_path / "file" / "rows.jsonl")


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device: .*status.json"):
        write_whole(tmp_path / "status.json", "{}")
    assert list(tmp_path.iterdir()) == []
