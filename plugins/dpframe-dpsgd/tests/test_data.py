"""Records come from the sources that the parameters name."""

import gzip

import numpy as np
import pytest
from dpframe_dpsgd.datasets import load_table
from dpframe_dpsgd.idx import read_idx
from dpframe_dpsgd.pairs import Canary
from dpsgd_support import SMALL

import dpframe


def idx(array, code):
    head = bytes([0, 0, code, array.ndim])
    return head + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def mnist(tmp_path):
    """Return a small folder in MNIST's form: gzipped images, plain labels."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (30, 28, 28)).astype(np.uint8)
    labels = (np.arange(30) % 10).astype(np.uint8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images, 8)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels, 8))
    return tmp_path, images, labels


def test_mnist_files_are_read_as_they_are_published(mnist):
    folder, images, labels = mnist
    table = load_table(str(folder))
    assert table.x.shape == (30, 784)
    assert table.x.dtype == np.float32
    np.testing.assert_allclose(table.x, images.reshape(30, -1) / 255, rtol=1e-6)
    np.testing.assert_array_equal(table.y, labels)
    assert table.classes == 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file"),
        (b"\0\0\x08", "not an IDX file"),
        (b"PK\x03\x04", "not an IDX file"),
        (b"\0\0\x08\x02\0\0\0\x05", "ends within its header"),
        (b"\0\0\x08\x01\0\0\0\x05abc", "3 bytes for an array of shape"),
        (b"\0\0\x08\x01\0\0\0\x01abc", "3 bytes for an array of shape"),
    ],
)
def test_a_damaged_file_is_said_to_be(tmp_path, content, message):
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_idx(file)


@pytest.mark.parametrize("code", [0x0C, 0x0E])
def test_idx_numbers_are_big_endian(tmp_path, code):
    values = np.array([[1, 2], [3, 400000]], ">i4" if code == 0x0C else ">f8")
    file = tmp_path / "x"
    file.write_bytes(idx(values, code))
    np.testing.assert_array_equal(read_idx(file), values)


def test_any_npz_of_x_and_y_will_do(tmp_path):
    file = tmp_path / "table.npz"
    np.savez(file, x=np.arange(24.0).reshape(4, 2, 3), y=np.array([0, 1, 2, 1]))
    table = load_table(str(file))
    assert table.x.shape == (4, 6)
    assert table.classes == 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((3, 2))}, "no array"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2, int)}, "shape"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(3)}, "integers"),
        ({"x": np.full((3, 2), np.nan), "y": np.zeros(3, int)}, "not finite"),
        ({"x": np.zeros(3), "y": np.zeros(3, int)}, "shape"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, arrays, message):
    file = tmp_path / "table.npz"
    np.savez(file, **arrays)
    with pytest.raises(ValueError, match=message):
        load_table(str(file))


def test_a_missing_file_is_a_mistake_of_the_spec(tmp_path):
    with pytest.raises(ValueError, match="No such file"):
        load_table(str(tmp_path / "nothing.npz"))


@pytest.mark.parametrize("canary", ["held-out", "mislabelled", "blank", "gradient"])
def test_d_and_d_prime_differ_by_the_canary_alone(canary):
    pair = Canary.from_params({"records": 50, "canary": canary, "index": 3})
    d0, d1 = pair.d0, pair.d1
    for a, b in zip(d0, d1, strict=True):
        assert np.shape(a) == np.shape(b)
    np.testing.assert_array_equal(d0.x, d1.x)
    np.testing.assert_array_equal(d0.present[:-1], d1.present[:-1])
    assert d0.present.sum() == 50
    assert d1.present.sum() == 51
    assert d0.gradient == d1.gradient == (canary == "gradient")


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    table, found = load_table("digits"), load_digits()
    np.testing.assert_array_equal(table.x, (found.data / 16).astype(np.float32))
    np.testing.assert_array_equal(table.y, found.target)


def test_the_canary_is_no_record_of_d():
    pair = Canary.from_params({"records": 1796})
    table = load_table("digits")
    assert sorted(map(bytes, pair.d1.x)) == sorted(map(bytes, table.x))


def test_a_canary_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="leave 1 of"):
        Canary.from_params({"records": 1796, "index": 1})


def test_the_contents_of_a_file_are_in_the_address_of_the_draws(tmp_path):
    """Another file under the same name is another audit; the same file elsewhere is the same."""

    def draw_group(file, x):
        np.savez(file, x=x, y=np.arange(len(x)) % 3)
        record = dpframe.audit(
            {
                "schema": 1,
                "audit": {"name": "contents", "trials": 8},
                "pair": {"use": "canary", "params": {"data": str(file), "records": 10}},
                "mechanism": [{"use": "dpsgd", "params": {**SMALL, "steps": 1, "batch": 5}}],
                "attack": [{"use": "canary-loss"}],
                "estimator": [{"use": "gdp"}],
                "run": {"pilot": 8},
            }
        )
        return record["cells"][0]["draw_group"]

    x = np.random.default_rng(0).random((12, 4))
    first = draw_group(tmp_path / "table.npz", x)
    assert draw_group(tmp_path / "table.npz", x) == first
    assert draw_group(tmp_path / "table.npz", x + 0.01) != first
