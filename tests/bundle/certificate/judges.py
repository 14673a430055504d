"""What answers the same rows as a graph that was accepted: onnxruntime, torch, a plain reading."""

import json

import numpy as np
import onnxruntime as ort
import torch

from fedlore.bundle import answer_rows
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.store import open_members
from fedlore.core.examples import Examples
from fedlore.errors import FedloreError

from ...plain_reading import Reading, Refused, Unread, Unsure, compute
from .forging import to_array


class Unanswered(Exception):
    """Something that was accepted and that nothing runs."""


def judge(base, site, tested, *, kept, built):
    """What is wrong with something that was accepted.

    Claims in `tested` the checker calls tested, not proved. `kept`: what was learned is as it was;
    `built`: the graph is the compiler's own.
    """
    try:
        bundle = open_members(site.members, as_of=site.certificate.get("as_of"))
    except FedloreError as error:
        if site.subject == "bundle":
            raise Unanswered(f"fedlore: {error}") from None
        bundle = None
    except Exception as error:  # a refusal is a sentence
        return [f"fedlore ends in a fault: {error!r}"]
    try:
        model = bundle_to_onnx(bundle) if site.subject == "bundle" else site.model
    except FedloreError as error:  # a network that answers and has no graph
        raise Unanswered(f"no graph: {error}") from None
    entry = next(e for e in model.metadata_props if e.key == "fedlore.knowledge.files")
    reading = Reading(json.loads(entry.value), site.certificate.get("as_of"))
    x = awkward(model, reading, base.x)
    try:
        run = session(model)
        got = ask(run, x)
        batches = [ask(run, x[7 : 7 + n]) for n in (1, 3)]
    except Exception as error:  # onnxruntime has classes of its own for every fault
        if answered(model, [x[7:10]]) != answered(model, [row[None] for row in x[7:10]]):
            return ["it answers batches of some sizes only"]
        raise Unanswered(f"onnxruntime: {str(error)[:200]}") from None
    wrong = [] if built else list(wrong_numbers(base, model))
    if list(got) != [value.name for value in base.site.model.graph.output]:
        wrong.append("its outputs are others")
    wrong += dependent(got, batches)
    fine = ~got["refused"]
    wrong += outside_range(got, fine)
    wrong += otherwise_read(reading, got, x, "a plain reading")
    if base.key:
        signed = Reading(texts_of(base.site.members))
        wrong += otherwise_read(signed, got, x, "what was signed")
    if bundle is not None:
        wrong += otherwise_said(bundle, got, x, fine, kept)
    claims = {claim["claim"]: claim["status"] for claim in site.certificate["claims"]}
    if claims.get("monotone") == "proved" and "monotone" not in tested:
        wrong += against_shapes(reading, run, got, x)
    counts = [len(one.get("levels", ())) or np.inf for one in reading.said["features"]]
    whole = (x < counts).all(1)  # no hole, no level that nobody named
    if claims.get("prediction-agrees", "proved") == "proved" == claims["never-empty"]:
        if got["refused"][whole].any() and reading.said.get("conflict") != "error":
            wrong.append("it refuses rows that the certificate says it answers")
    if claims.get("prediction-inside") == "proved" and bundle is not None and "class" in got:
        known = bundle.personal.knowledge
        rows = torch.from_numpy(x[fine]).float()
        if fine.any() and known._evaluate(Examples(rows), known.answers)[1] > 0:
            wrong.append("the prediction leaves the range")
    return wrong


def answered(model, batches):
    """Whether onnxruntime answers all of some batches."""
    try:
        run = session(model)
        return bool([ask(run, x) for x in batches])
    except Exception:
        return False


def dependent(got, batches):
    """Outputs that hang on which rows are asked together."""
    for part in batches:
        for name, values in got.items():
            here = values[7 : 7 + len(part[name])]
            if not np.allclose(here, part[name], atol=1e-5, equal_nan=True):
                yield f"'{name}' hangs on the batch"


def texts_of(members):
    """The knowledge of a bundle."""
    return {n: d.decode() for n, d in members.items() if n.endswith((".toml", ".csv"))}


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def ask(run, x):
    names = [value.name for value in run.get_outputs()]
    return dict(zip(names, run.run(None, {"rows": x}), strict=True))


def awkward(model, reading, x):
    """The rows, with every number of the graph that lies in the scope put somewhere, and beside."""
    columns = reading.said["features"]
    found = {float(v) for t in model.graph.initializer for v in np.ravel(to_array(t))[:64]
             if to_array(t).dtype.kind == "f" and np.isfinite(v)}  # fmt: skip
    exact = np.array(sorted(v for v in found if abs(v) < 3e38), dtype=np.float32)
    near = [exact, np.nextafter(exact, np.float32(9e9)), np.nextafter(exact, np.float32(-9e9))]
    marks, draw = np.concatenate(near).astype(np.float64), np.random.default_rng(0)
    x = x[:, : len(columns)].copy()
    for place, column in enumerate(columns):
        if "levels" in column:
            continue
        low, high = float(column.get("low", -3e38)), float(column.get("high", 3e38))
        here = np.array(
            [*marks[(marks >= low) & (marks <= high)], max(low, -3e38), min(high, 3e38)]
        )
        some = draw.random(len(x)) < 0.4
        some &= ~np.isnan(x[:, place])
        x[some, place] = draw.choice(here, some.sum())
        x[:, place] = np.clip(x[:, place], low, high).astype(np.float32)
    return x


def wrong_numbers(base, model):
    before = {t.name for t in base.site.model.graph.initializer if not _finite(t)}
    for tensor in model.graph.initializer:
        if tensor.dims and tensor.name not in before and not _finite(tensor):
            yield f"'{tensor.name}' is not finite"


def _finite(tensor):
    values = to_array(tensor)
    return values.dtype.kind != "f" or bool((np.abs(values) <= 3.4028235e38).all())


def outside_range(got, fine):
    """Answers that are none: not finite, not in the set that is given out beside them."""
    if "number" in got:
        y, (low, high) = got["number"][fine], got["interval"][fine].T
        ends = got["lower"][fine], got["upper"][fine]
        if not np.isfinite(y).all() or not ((low <= y) & (y <= high)).all():
            yield "a number is not finite, or not in its interval"
        elif not ((ends[0] <= y[:, None]) & (y[:, None] <= ends[1])).any(1).all():
            yield "a number lies outside its set"
        return
    p, allowed, chosen = (got[key][fine] for key in ("probabilities", "allowed", "class"))
    if not np.isfinite(p).all() or not ((p >= 0) & (p <= 1.0001)).all():
        yield "probabilities are none"
    elif (p[~allowed] != 0).any() or not np.allclose(p.sum(1), 1, atol=1e-4):
        yield "probabilities lie outside the range"
    if ((chosen < 0) | (chosen >= p.shape[1])).any():
        yield "a class is none"
    elif not allowed[np.arange(len(p)), chosen].all():
        yield "a class lies outside the range"


def otherwise_read(reading, got, x, who):
    """Rows on which somebody who reads the texts row by row says something else."""
    names = list(reading.levels)
    for i, values in enumerate(x):
        try:
            allowed = reading.allowed(dict(zip(names, map(float, values), strict=True)))
        except Unread:
            return
        except Unsure:
            continue
        except Refused:
            if not got["refused"][i]:
                yield f"{who} refuses {values.tolist()}"
                return
            continue
        if got["refused"][i] or allowed is None:
            continue  # the expert may contradict himself
        if "number" in got:
            good = allowed(float(got["number"][i])) or reading.said.get("range", {}).get("empty")
        else:
            good = allowed == set(np.flatnonzero(got["allowed"][i]).tolist())
        if not good:
            yield f"{who} allows otherwise at {values.tolist()}"
            return


def otherwise_said(bundle, got, x, fine, kept):
    """What torch says of the same rows: the range always, all of the answer where it was kept."""
    rows = torch.from_numpy(x).float()
    for i in np.flatnonzero(~fine)[:5]:
        try:
            answer_rows(bundle, rows[i : i + 1])
        except FedloreError:
            continue
        yield f"torch answers {x[i].tolist()}"
        return
    if not fine.any():
        return
    try:
        said = answer_rows(bundle, rows[fine])
    except FedloreError as error:
        yield f"torch refuses: {error}"
        return
    if "number" in got:
        near = np.isclose(got["number"][fine], np.asarray(said.predicted), atol=5e-3, rtol=1e-3)
        if kept and near.mean() < 0.99:
            yield "torch says another number"
        return
    p = got["probabilities"][fine]
    known_range = bundle.personal.annotate(rows[fine]).allowed
    if known_range is not None and (p[~known_range.numpy()] != 0).any():
        yield "torch's range is another"
    far = np.abs(p - np.asarray(said.probabilities)).max(1) > 1e-4
    if kept and far.mean() > 0.01:
        yield f"torch says other probabilities at {x[fine][far][0].tolist()}"


def against_shapes(reading, run, got, x):
    """Pairs of rows along a shape whose answers go the other way."""
    names = list(reading.levels)
    key = "number" if "number" in got else "class"
    slack = 1e-3 if key == "number" else 0
    for feature, sign, where in reading.shapes():
        place = names.index(feature)
        more = x.copy()
        more[:, place] = np.maximum(x[:, place], np.roll(x[:, place], 7))
        less = x.copy()
        less[:, place] = np.minimum(x[:, place], np.roll(x[:, place], 7))
        middle = (more + less) / 2
        high, low = ask(run, more), ask(run, less)
        try:
            inside = [_within(where, names, row) for row in zip(less, middle, more, strict=True)]
        except Unread:
            continue
        there = np.array(inside) & ~high["refused"] & ~low["refused"]
        against = there & (sign * (high[key] - low[key].astype(float)) < -slack)
        if against.any():
            pair = less[against][0].tolist(), more[against][0].tolist()
            yield f"against its shape between {pair[0]} and {pair[1]}"


def _within(where, names, rows):
    try:
        return not where or all(
            compute(where, dict(zip(names, map(float, row), strict=True))) for row in rows
        )
    except (Unsure, Refused):
        return False
