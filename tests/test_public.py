"""The public names are what they are on purpose."""

import subprocess
import sys

import fedlore

PROMISED = """inject Knowledge Personal Examples Client Plan FedAvg Alone fit Fitted federate
Mask MaxPool Lookup""".split()


def test_promised_names_are_there():
    assert set(PROMISED) <= set(fedlore.__all__)


def test_all_is_sorted_and_every_name_exists():
    assert list(fedlore.__all__) == sorted(fedlore.__all__)
    assert all(hasattr(fedlore, name) for name in fedlore.__all__)


def test_import_needs_torch_and_numpy_alone():
    code = (
        "import sys; import fedlore; "
        "print({'typer', 'rich', 'scipy', 'sklearn', 'openpyxl', 'matplotlib', 'onnxruntime'}"
        " & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
