"""The paper's data sets: what is found, where, and what is refused."""

import gzip
import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedlore.data import covtype, fashion_mnist
from fedlore.data import public as sources
from fedlore.data.public import DataFile, cache, content, places
from fedlore.errors import FedloreError

SHIPPED = Path(sources.__file__).parent / "files" / "covtype.npz"


@pytest.fixture(scope="module")
def forest():
    return covtype(SHIPPED.parent)


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A machine without any data."""
    monkeypatch.setenv("FEDLORE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "DEBIAN", tmp_path / "debian")
    monkeypatch.setitem(sys.modules, "pooch", None)  # as if it were not installed
    return tmp_path


def test_covtype_ships_with_its_attribution():
    text = (SHIPPED.parent / "ATTRIBUTION.md").read_text()
    assert "Blackard" in text and "CC BY 4.0" in text and sources.COVTYPE.sha256 in text


def test_covtype_is_complete_and_scaled_as_the_authors_had_it(forest):
    assert forest.x.shape == (581012, 54) and forest.x.dtype == torch.float32
    counts = [211840, 283301, 35754, 2747, 9493, 17367, 20510]
    assert forest.y.bincount().tolist() == counts
    assert (forest.x.amin(0) == 0).all() and (forest.x.amax(0) == 1).all()
    assert (forest.x[:, 10:14].sum(1) == 1).all() and (forest.x[:, 14:].sum(1) == 1).all()
    # the first row by hand: elevation 2596 of 1859..3858, aspect 51 of 0..360, label 5
    assert forest.x[0, 0].item() == pytest.approx(0.368684, abs=1e-7)
    assert forest.x[0, 1].item() == pytest.approx(0.141667, abs=1e-7)
    assert forest.y[0] == 4


def test_a_damaged_file_is_named_with_the_checksum_it_should_have(nowhere):
    (nowhere / "covtype.npz").write_bytes(b"not a forest")
    with pytest.raises(FedloreError, match=f"covtype.npz.* expected sha256 {'a165fc21'}"):
        covtype()


def test_fashion_mnist_missing_says_what_is_needed_and_how_to_get_it(nowhere):
    with pytest.raises(FedloreError) as caught:
        fashion_mnist()
    message = str(caught.value)
    assert "fashion_mnist.npz (sha256 5b6d2c4c" in message
    assert "dataset-fashion-mnist" in message and "FEDLORE_DATA" in message
    assert "pip install 'fedlore[data]'" in message


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FedloreError, match="'.*nope' does not exist"):
        covtype(tmp_path / "nope")


def test_the_folder_given_comes_before_the_cache(nowhere):
    assert places(nowhere / "..")[0] == nowhere / ".."
    assert places() == [nowhere, nowhere / "cache" / "fedlore"]


def idx_files(folder, monkeypatch, pack=gzip.compress):
    """Tiny archives in the original format, and their checksums in place of the real ones."""
    folder.mkdir(parents=True, exist_ok=True)
    images = np.arange(3 * 784, dtype=np.uint8).tobytes()
    contents = [bytes(16) + images, bytes(8) + bytes([1, 2, 9])] * 2
    made = []
    for file, data in zip(sources.ORIGINALS, contents, strict=True):
        (folder / file.name).write_bytes(pack(data))
        made.append(DataFile(file.name, hashlib.sha256(data).hexdigest(), file.md5))
    monkeypatch.setattr(sources, "ORIGINALS", tuple(made))


def test_debian_files_are_read(nowhere, monkeypatch):
    idx_files(nowhere / "debian", monkeypatch)
    parts = fashion_mnist(fetch=False)
    assert parts.train.x.shape == (3, 28, 28) and parts.test.y.tolist() == [1, 2, 9]
    assert parts.train.x[0, 0, 1].item() == pytest.approx(1 / 255)


def test_a_truncated_archive_is_refused(nowhere, monkeypatch):
    idx_files(nowhere / "debian", monkeypatch, pack=lambda data: gzip.compress(data)[:-9])
    with pytest.raises(FedloreError, match="train-images.*damaged.*sha256"):
        fashion_mnist(fetch=False)


def test_download_pins_the_published_sums_and_fills_the_cache(nowhere, monkeypatch):
    asked = []

    def retrieve(url, known_hash, *, fname, path, progressbar):
        asked.append((url.rsplit("/", 1)[1], known_hash))
        assert path == cache()
        if fname == sources.ORIGINALS[0].name:
            idx_files(cache(), monkeypatch)

    monkeypatch.setitem(sys.modules, "pooch", SimpleNamespace(retrieve=retrieve))
    assert len(fashion_mnist().train) == 3
    assert asked[0] == ("train-images-idx3-ubyte.gz", "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d")
    assert len(asked) == 4


def test_a_failed_download_is_one_clear_error(nowhere, monkeypatch):
    def retrieve(*args, **settings):
        raise ConnectionError("no route")

    monkeypatch.setitem(sys.modules, "pooch", SimpleNamespace(retrieve=retrieve))
    with pytest.raises(FedloreError, match="could not download .*train-images.*: no route"):
        fashion_mnist()


def test_real_fashion_mnist_where_it_is_at_hand():
    try:
        parts = fashion_mnist(fetch=False)
    except FedloreError:
        pytest.skip("Fashion-MNIST is not here; FEDLORE_DATA names its folder")
    assert parts.train.x.shape == (60000, 28, 28) and parts.test.x.shape == (10000, 28, 28)
    assert parts.train.y.bincount().tolist() == [6000] * 10
    assert float(parts.train.x.mean()) * 255 == pytest.approx(72.9404, abs=1e-3)


def test_content_of_an_unreadable_file_is_one_error(tmp_path):
    with pytest.raises(FedloreError, match="cannot read"):
        content(tmp_path / "x.npz", DataFile("x.npz", "0"))
