"""The range certificate of a bundle: what is claimed, of which bytes, and how it is known.

It is derived by the steps by which the checker derives it again: claims are decided by the kernel,
the same that lint asks. What is independent of it is the model that runs (torch, onnxruntime), and
brute force in the tests. A certificate is sealed by a hash only. That shows that its text and the
files it names have not been changed since; it does not show who wrote it. Whose rules they are it
shows where their owner signed them.
"""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checker.bundles import confusion_faults, weight_faults
from ..checker.graphs import Graph, graph_faults
from ..checker.verdict import bundle_facts, trust_faults
from ..core.store import write_whole
from ..errors import FedloreError, KnowledgeError
from .header import Bundle
from .knowledge import check_signature
from .onnx import bundle_to_onnx

_FAULT = "certificate"  # the code of errors raised here


def certify(bundle: Bundle) -> dict[str, Any]:
    """The certificate of a bundle, as plain values with their hash."""
    check_signature(bundle.members)
    weights = {n: t.cpu().numpy() for n, t in bundle.personal.inner.model.state_dict().items()}
    wrong = weight_faults(weights)
    if wrong:
        raise FedloreError(f"weights must be finite and in single precision: {wrong[0]}")
    try:
        day = None if bundle.timeline is None else bundle.timeline.day.isoformat()
        facts = bundle_facts(bundle.members, as_of=day)
    except KnowledgeError as error:
        raise KnowledgeError(f"a certificate covers tables and formulas only: {error}") from None
    wrong = confusion_faults(facts.confusion, facts.known, facts.signature) + trust_faults(facts)
    if importlib.util.find_spec("onnx") is not None:
        graph = Graph(bundle_to_onnx(bundle).SerializeToString())
        wrong += graph_faults(graph, facts.known, facts.expert)
        facts = replace(facts, graph=graph.digests())
    if wrong:
        raise FedloreError(f"no certificate: the model is not understood, {wrong[0]}")
    return facts.derive()


def write_certificate(values: Mapping[str, Any], path: str | Path) -> None:
    """Write a certificate, whole or not at all."""
    path = Path(path)
    try:
        write_whole(path, json.dumps(values, indent=1) + "\n")
    except OSError as error:
        raise FedloreError(f"cannot write '{path}': {error.strerror}") from None
