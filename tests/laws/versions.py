"""Three versions of one meaning: torch, the kernel's numpy and onnxruntime, held side by side."""

import numpy as np
import onnxruntime as ort
import pytest
import torch

from fedlore.bundle import answer_rows, bundle_of
from fedlore.bundle.onnx import bundle_to_onnx, to_onnx
from fedlore.bundle.onnx.model import knowledge_files
from fedlore.checker.graphs import Graph, graph_faults
from fedlore.errors import FedloreError
from fedlore.kernel.answers import numbers_of, said_of, sets_of
from fedlore.kernel.knowledge import read_knowledge

from ..bundle.onnx.numberworlds import NUMBERED
from ..bundle.onnx.worlds import thin


def ran(model, x):
    """All outputs of a graph, in their order."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"rows": np.asarray(x, dtype=np.float64)})


def answers(personal, x):
    """Personal's probabilities, range and class of rows that it does not refuse."""
    known = personal.annotate(x)
    p = personal.log_probs(known).exp().detach()
    allowed = torch.ones_like(p, dtype=torch.bool) if known.allowed is None else known.allowed
    return known, p.numpy(), allowed.numpy(), personal.predict(x).numpy()


def refuses(ask, x, refused):
    """That a few of the rows that others refuse are refused here too, each by itself."""
    for row in x[torch.from_numpy(refused)][:5]:
        with pytest.raises(FedloreError):
            ask(row.unsqueeze(0))


def agree_on_classes(world):
    """Refusals and ranges to the bit, predictions and probabilities as near as rounding allows."""
    personal, x = world.personal, world.x
    x = x[~thin(personal.knowledge.prediction, x)]
    said = said_of(read_knowledge(knowledge_files(personal.knowledge)), x.numpy())
    agree_on_graph(personal, x, to_onnx(personal), said)


def agree_on_graph(personal, x, graph, said=None, tolerance=1e-6):
    """What a graph gives out is what torch says, and what the kernel `said`."""
    p, chosen, allowed, refused, *_ = ran(graph, x.double())
    assert (p[refused] == 0).all() and (chosen[refused] == -1).all() and not allowed[refused].any()
    refuses(personal.annotate, x, refused)
    kept = ~refused
    if not kept.any():
        return
    known, wanted, inside, best = answers(personal, x[torch.from_numpy(kept)])
    assert (allowed[kept] == inside).all()
    assert (p[kept][~inside] == 0).all()  # exactly
    np.testing.assert_allclose(p[kept], wanted, atol=tolerance, rtol=0)
    top = np.sort(p[kept], axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * tolerance
    assert (chosen[kept] == best)[clear].all()
    if said is not None:
        assert (said.refused == refused).all() and (said.allowed[kept] == inside).all()
        if said.prior is not None:
            np.testing.assert_allclose(said.prior[kept], known.prior.numpy(), atol=1e-6)


def agree_on_numbers(world):
    """The same of a number: refusals and sets, then number and interval."""
    made = bundle_of(world.personal, "site", schema=NUMBERED)
    graph = bundle_to_onnx(made)
    refused, got = agree_on_bundle(made, world.x, graph)
    known = read_knowledge(knowledge_files(world.personal.knowledge))
    assert graph_faults(Graph(graph.SerializeToString()), known, None) == []
    assert (numbers_of(known, world.x.numpy())[1] == refused).all()
    sets = sets_of(known, world.x.numpy())
    for name, ends in (("lower", sets.lower), ("upper", sets.upper)):
        np.testing.assert_allclose(got[name][~refused], ends[~refused], atol=1e-6)


def agree_on_bundle(found, x, graph=None):
    """Which rows the graph refuses, and what it gives out: of others what Python answers."""
    graph = bundle_to_onnx(found) if graph is None else graph
    names = [value.name for value in graph.graph.output]
    got = dict(zip(names, ran(graph, x.double()), strict=True))
    refused = got["refused"]
    assert np.isnan(got["number"][refused]).all()
    refuses(lambda row: answer_rows(found, row), x, refused)
    kept = ~refused
    if kept.any():
        told = answer_rows(found, x[torch.from_numpy(kept)])
        low, high = np.nanmin(got["lower"][kept], 1), np.nanmax(got["upper"][kept], 1)
        pairs = ((got["number"][kept], told.predicted), (got["interval"][kept], told.interval))
        for ours, theirs in (*pairs, (low, told.low), (high, told.high)):
            np.testing.assert_allclose(ours, theirs, atol=2e-5)
    for values in (got["number"], *got["interval"].T):  # without tolerance
        inside = (got["lower"] <= values[:, None]) & (values[:, None] <= got["upper"])
        assert inside.any(1)[kept].all()
    return refused, got
