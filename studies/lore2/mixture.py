"""Mixtures: weights from out-of-fold predictions, shrunk towards equal, against equal weights."""

import sys

import torch
from coke import Part, accuracy
from nets import Net, mixed, single, train
from oneround import clamped, classes, evidence, features


def heard_columns(p: Part, number: bool) -> torch.Tensor:
    place = clamped(p.told) if number else p.said
    return torch.stack([(place - 9.5) / 5, place - p.middle], -1)


def one_round(plants, *, number=False, kind="quadratic"):
    """The one-round model hearing (place, place - middle): (s, n, k) for each plant."""
    out = [[] for _ in plants]
    for s in range(plants[0][0].x.shape[0]):
        sums, kept = [], []
        for pair in plants:
            a, t = (q.seed(s) for q in pair)
            fa, groups = features(torch.cat([a.x, heard_columns(a, number)], 1), kind)
            ft, _ = features(torch.cat([t.x, heard_columns(t, number)], 1), kind)
            y = a.y.double()
            c, r = fa - fa.mean(0), y - y.mean()
            sums.append((c.T @ c, c.T @ r, r @ r, len(r) - 1.0))
            kept.append((ft - fa.mean(0), y.mean(), len(r)))
        w, cov, noise, _ = evidence(*(sum(q) for q in zip(*sums, strict=True)), groups)
        for i, (z, level, n) in enumerate(kept):
            v = noise * (1 + 1 / n) + ((z @ cov) * z).sum(1)
            out[i].append(classes(level + z @ w, v.sqrt()))
    return inside([torch.stack(q) for q in out], plants)


def inside(out, plants):
    return [
        q.masked_fill(~t.allowed, -torch.inf).log_softmax(-1)
        for q, (_, t) in zip(out, plants, strict=True)
    ]


def members(plants, names, number=False):
    place = "told" if number else "said"
    heard = ("middle", place, "gap")
    makers = {
        "one": lambda: one_round(plants, number=number),
        "net none": lambda: mixed(train(plants, Net("none", heard, scale=5.0, ensemble=4))),
        "net expert": lambda: mixed(train(plants, Net(place, heard, ensemble=4))),
        "own": lambda: single(train(plants, Net("none", (), 0, scale=5.0, plain=1.0, alone=True))),
    }
    return {n: inside(makers[n](), plants) for n in names}


def cut(p: Part, rows) -> Part:
    return Part(*(t[:, rows] for t in vars(p).values()))


def out_of_fold(plants, names, number, folds=4):
    """Members' log-probabilities of the label's row on training rows, (s, n, k)."""
    found = {
        n: [torch.empty(*a.y.shape, 20, dtype=torch.float64) for a, _ in plants] for n in names
    }
    for f in range(folds):
        some = []
        for a, _ in plants:
            held = torch.arange(a.y.shape[1]) % folds == f
            some.append([cut(a, ~held), cut(a, held)])
        for name, out in members(some, names, number).items():
            for i, q in enumerate(out):
                found[name][i][:, torch.arange(plants[i][0].y.shape[1]) % folds == f] = q.double()
    return found


def weights(logp, y, shrink):
    """(j, s, n, k) -> (j, s): likeliest weights by EM with `shrink` rows' worth of equal ones."""
    j = len(logp)
    p = torch.stack([q.gather(-1, y[..., None])[..., 0] for q in logp]).exp().clamp(min=1e-6)
    w = torch.full((j, p.shape[1], 1), 1 / j, dtype=p.dtype)
    for _ in range(300):
        r = w * p
        r = r / r.sum(0)
        w = (r.sum(-1, keepdim=True) + shrink / j) / (p.shape[-1] + shrink)
    return w


def blend(logp, w):
    return sum(wi[..., None] * q.double().exp() for wi, q in zip(w, logp, strict=True)).log()


if __name__ == "__main__":
    torch.set_num_threads(1)
    plants = [[Part(**q) for q in p] for p in torch.load("/tmp/coke100.pt")]
    number = "number" in sys.argv
    names = ["one", "net none", "net expert", "own"]
    full, oof = members(plants, names, number), out_of_fold(plants, names, number)
    torch.save((full, oof), f"/tmp/members{int(number)}.pt")
    for n in names:
        a = accuracy(full[n], plants)
        print(f"{n:40s} {a.mean():.2f} ± {a.std() / 20**0.5:.2f}")
    best = accuracy(full["one"], plants)
    for some in (
        ["one", "net none"],
        ["one", "own"],
        ["one", "net none", "own"],
        ["one", "net expert", "own"],
        names,
    ):
        for shrink in (1e9, 300, 100, 30, 10):
            out = []
            for i, (a, _) in enumerate(plants):
                w = weights([oof[n][i] for n in some], a.y, shrink)
                out.append(blend([full[n][i] for n in some], w))
            a = accuracy(out, plants)
            d = a - best
            print(
                f"{' + '.join(some):40s} shrink {shrink:>6g} {a.mean():.2f}  over one "
                f"{d.mean():+.2f} ± {2.093 * d.std() / 20**0.5:.2f}",
                flush=True,
            )
