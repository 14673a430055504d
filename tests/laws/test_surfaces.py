"""Every kind of knowledge on every surface: file, bundle, graph, service, reasons, certificate.

The files are those of `tests/golden`; a new kind joins by a case there. What each kind means is
tested where it is defined, and frozen in the corpus: here all surfaces must agree on it. Kinds of
models are held to the same in `tests/bundle/test_surfaces.py`.
"""

import numpy as np
import onnxruntime as ort
import pytest
import torch

from fedlore import Knowledge, read_bundle, write_bundle
from fedlore.bundle import answer_rows
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.explain import reasons
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.onnx.builder import save_graph
from fedlore.bundle.serve.answer import Answerer, in_words
from fedlore.bundle.update import update_bundle
from fedlore.checker import check
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.knowledge.signing import meaning_of

from ..golden import surface
from ..golden.cases import read_cases
from ..golden.frozen import write_files
from ..golden.rows import matrix_of, rows_of

CASES = read_cases()
ROWS = 120
CHANGES = {"7.7": "7.6", "ash / ": "2 + ash / ", "70.9": "71", "0.91": "0.92"}


class Site:
    """A bundle, with rows that it answers and rows that it refuses."""

    def __init__(self, bundle, x, folder):
        self.bundle, self.folder = bundle, folder
        self.fine = torch.tensor([self.answers(row) for row in x.unsqueeze(1)])
        self.x, self.refused = x[self.fine], x[~self.fine]

    @staticmethod
    def of_case(name, folder):
        """A case of the corpus as a bundle."""
        write_files(CASES[name], folder)
        x = torch.from_numpy(matrix_of(CASES[name], rows_of(name, CASES[name], ROWS))).float()
        return Site(read_bundle(surface.bundle(folder, seed=1)), x, folder)

    @property
    def known(self):
        return Knowledge.read(self.folder / "knowledge.toml")

    def answers(self, row):
        try:
            answer_rows(self.bundle, row)
        except FedloreError:
            return False
        return True

    def said(self, bundle=None):
        found = answer_rows(bundle or self.bundle, self.x)
        return torch.as_tensor(found.predicted).double(), found.probabilities, found.trust


def equal(one, two):
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def a_file_reads_back_as_it_was(site):
    again = site.folder / "again" / "knowledge.toml"
    site.known.write(again)
    assert Knowledge.read(again).fingerprint == site.known.fingerprint
    assert meaning_of(again) == meaning_of(site.folder / "knowledge.toml")


def another_statement_is_another_fingerprint(site):
    path, known = site.folder / "knowledge.toml", site.known
    tables = [p for p in site.folder.glob("*.csv") if "then" in p.read_text()]
    for place in (path, *tables):
        text = place.read_text()
        for old, new in CHANGES.items():
            if old in text:
                place.write_text(text.replace(old, new))
                assert Knowledge.read(path).fingerprint != known.fingerprint
                place.write_text(text)


def a_bundle_answers_as_it_did(site):
    for place in ("again.lore", "folder"):
        write_bundle(site.bundle, site.folder / place)
        again = read_bundle(site.folder / place)
        assert equal(site.said(), site.said(again)) and again.fingerprint == site.bundle.fingerprint
        assert reasons(again, site.x[:20]) == reasons(site.bundle, site.x[:20])


def an_update_with_the_same_file_changes_nothing(site):
    assert site.bundle.personal.knowledge.fingerprint == site.known.fingerprint
    updated = update_bundle(site.bundle, site.folder / "knowledge.toml")
    assert equal(site.said(), site.said(updated))


def a_graph_answers_as_python(site):
    graph = bundle_to_onnx(site.bundle).SerializeToString()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    rows = torch.cat([site.x, site.refused]).double().numpy()
    got = dict(zip(names, session.run(None, {"rows": rows}), strict=True))
    n = len(site.x)
    assert not got["refused"][:n].any() and got["refused"][n:].all()
    predicted, probabilities, _ = site.said()
    if "number" in got:
        np.testing.assert_allclose(got["number"][:n], predicted, atol=2e-3, rtol=1e-3)
    else:
        np.testing.assert_allclose(got["probabilities"][:n], probabilities, atol=1e-5)


def a_service_answers_as_python_and_says_why(site):
    found = answer_rows(site.bundle, site.x)
    served, _ = Answerer.of(site.bundle)(site.x.double())
    lines = reasons(site.bundle, site.x, found)
    assert all(lines)
    for i, row in enumerate(served):
        assert row["trust"] == pytest.approx(float(found.trust[i]), abs=1e-6)
        assert in_words(row)["reasons"] == lines[i]
        wanted = found.predicted[i].item()
        if site.bundle.task == "classification":
            wanted = site.bundle.schema.classes[wanted]
        assert row["predicted"] == pytest.approx(wanted)
        values = list(row["probabilities"].values())
        np.testing.assert_allclose(values, found.probabilities[i], atol=1e-6)


def a_certificate_is_borne_out_by_the_checker(site):
    try:
        values = certify(site.bundle)
    except KnowledgeError:  # what is not provable at all is refused, with a sentence
        return
    write_certificate(values, site.folder / "c.json")
    write_bundle(site.bundle, site.folder / "b.lore")
    save_graph(bundle_to_onnx(site.bundle), site.folder / "m.onnx")
    for subject in ("b.lore", "m.onnx"):
        lines = check(site.folder / "c.json", site.folder / subject)
        broken = [line for line in lines if not line.holds]
        # the checker finds what the issuer found, and nothing else
        assert bool(broken) == (values["verdict"] == "refuted"), broken


MODEL_LAWS = (
    a_bundle_answers_as_it_did,
    a_graph_answers_as_python,
    a_service_answers_as_python_and_says_why,
    a_certificate_is_borne_out_by_the_checker,
)
LAWS = (
    a_file_reads_back_as_it_was,
    another_statement_is_another_fingerprint,
    an_update_with_the_same_file_changes_nothing,
    *MODEL_LAWS,
)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", CASES)
def test_all_surfaces_agree(name, tmp_path):
    site = Site.of_case(name, tmp_path)
    for law in LAWS:
        law(site)
