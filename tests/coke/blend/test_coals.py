import pytest

from fedlore.errors import FedloreError
from fedlore_coke.blend import read_coals
from fedlore_coke.blend.graders import class_target, number_target

GOOD = "coal,class,price,stock,min,max,Ad [%],Ro\na,JM,100,50,,60,9,1.2\nb,FM,80,70,5,,10,1.0\n"


def read(tmp_path, text):
    path = tmp_path / "coals.csv"
    path.write_text(text)
    return read_coals(path)


def test_a_list_of_coals(tmp_path):
    coals = read(tmp_path, GOOD)
    assert coals.names == ("a", "b")
    assert set(coals.properties) == {"Ad", "Ro"}  # words such as the class are passed over
    assert coals.stock.tolist() == [50.0, 70.0]
    low, high = coals.bounds
    assert low.tolist() == [0.0, 0.05] and high.tolist() == [0.6, 1.0]


def test_a_list_with_semicolons_and_decimal_commas(tmp_path):
    coals = read(tmp_path, GOOD.replace(",", ";").replace(".", ","))
    assert coals.properties["Ro"].tolist() == [1.2, 1.0] and coals.price.tolist() == [100.0, 80.0]


def test_a_list_in_a_workbook(tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["coal", "price", "Ad [%]"], ["a", 100, 9.5], ["b", None, "x"]):
        book.active.append(row)
    book.save(tmp_path / "coals.xlsx")
    with pytest.raises(FedloreError) as caught:
        read_coals(tmp_path / "coals.xlsx")
    assert "sheet 'Sheet' has 2 problems" in str(caught.value)
    assert "coal 'b' has no price" in str(caught.value)
    assert "coal 'b', Ad: 'x' is not a number" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("100,50", ",50", "coal 'a' has no price"),
        ("100,50", "cheap,50", "coal 'a', price: 'cheap' is not a number"),
        ("100,50", "-1,50", "coal 'a': price must not be negative, got -1"),
        ("100,50", "100,-50", "coal 'a': stock must not be negative, got -50"),
        ("100,50", "100,nan", "coal 'a' has no stock"),
        (",9,", ",nan,", "coal 'a' has no Ad"),
        (",9,", ",,", "coal 'a' has no Ad"),
        (",60,", ",160,", r"max must lie in \[0, 1\]"),
        ("5,,10", "90,10,10", "coal 'b': min must not be above the largest share, got 0.9"),
        ("\nb,", "\na,", "coal 'a' is named twice"),
        ("\nb,", "\n,", "row 3 has no name"),
        ("price", "cost", "unknown column 'price'"),
        ("Ro\n", "price\n", "the column 'price' is there twice"),
        ("1.0\n", "1.0,7\n", "row 3 has 9 cells, the header has 8"),
    ],
)
def test_bad_lists_are_refused(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(FedloreError, match=message):
        read(tmp_path, GOOD.replace(old, new))


def test_empty_and_absent_files(tmp_path):
    with pytest.raises(FedloreError, match="is empty"):
        read(tmp_path, "")
    with pytest.raises(FedloreError, match="has no coals"):
        read(tmp_path, "coal,price\n")
    with pytest.raises(FedloreError, match="cannot read"):
        read_coals(tmp_path / "none.csv")


CLASSES = ("D", "C", "B", "A")


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("grade>=2", 2, 3), ("grade >= B", 2, 3), ("grade>B", 3, 3), ("grade<=1", 0, 1),
        ("grade<B", 0, 1), ("grade=C", 1, 1), ("grade==C", 1, 1), ("grade>=C, grade<=B", 1, 2),
    ],
)  # fmt: skip
def test_targets_of_classes(text, low, high):
    found = class_target(text, CLASSES)
    assert (found.low, found.high) == (low, high)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grade>=E", "unknown class 'E'"),
        ("grade>=4", r"no class '4', and positions end at 3 \(A\)"),
        ("grade>A", "holds for no class"),
        ("csr>=2", "unknown label 'csr'"),
        ("good", "must read like"),
        ("grade>=-1", "unknown class '-1'"),
        ("", "must read like"),
    ],
)
def test_targets_that_make_no_sense(text, message):
    with pytest.raises(FedloreError, match=message):
        class_target(text, CLASSES)


def test_a_name_goes_before_a_position():
    assert class_target("grade>=1", ("3", "2", "1")).low == 2


def test_targets_of_numbers():
    found = number_target("csr>=60", "csr", lower=20.0, upper=80.0)
    assert (found.low, found.high) == (60.0, 80.0)
    assert number_target("csr>60", "csr", lower=20.0, upper=80.0).low > 60.0
    with pytest.raises(FedloreError, match="'nan' is not a finite number"):
        number_target("csr>=nan", "csr", lower=20.0, upper=80.0)
    with pytest.raises(FedloreError, match="holds for no number in"):
        number_target("csr>=90", "csr", lower=20.0, upper=80.0)
