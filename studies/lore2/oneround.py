"""The one-round Bayesian ridge from summed Gram matrices, tried in several forms."""

import math

import torch
from coke import accuracy
from torch import Tensor


def features(x: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """(n, d) -> (n, f) and the group of each feature."""
    d = x.shape[-1]
    parts, groups = [x], [torch.zeros(d)]
    if kind in ("squares", "quadratic"):
        parts.append((x * x - 1) / math.sqrt(2))
        groups.append(torch.ones(d))
    if kind == "quadratic":
        i, j = torch.triu_indices(d, d, 1)
        parts.append(x[..., i] * x[..., j])
        groups.append(torch.full((len(i),), 2.0))
    return torch.cat(parts, -1), torch.cat(groups).long()


def evidence(G, b, yy, n, groups, *, steps=200, start=1e-2):
    """EM for group prior variances and the noise; posterior mean and covariance."""
    k = int(groups.max()) + 1
    prior = torch.full((k,), start, dtype=G.dtype)
    noise = yy / n
    count = torch.bincount(groups, minlength=k).to(G.dtype)
    for _ in range(steps):
        A = G / noise + torch.diag(1 / prior[groups])
        L = torch.linalg.cholesky(A)
        S = torch.cholesky_inverse(L)
        w = S @ b / noise
        second = w * w + S.diagonal()
        new = torch.zeros_like(prior).index_add_(0, groups, second) / count
        rss = yy - 2 * w @ b + w @ G @ w
        noise_new = (rss + (S * G).sum()) / n
        done = (new.log() - prior.log()).abs().max() < 1e-4
        prior, noise = new.clamp(min=1e-8), noise_new
        if done:
            break
    A = G / noise + torch.diag(1 / prior[groups])
    S = torch.linalg.inv(A)
    return S @ b / noise, S, noise, prior


def run(plants, *, over="told", kind="quadratic", alone=False, hear=False, steps=200, clampy=False):
    """Log-probabilities of each plant's test rows, (s, n, k)."""
    seeds = plants[0][0].x.shape[0]
    out = [[] for _ in plants]
    oof = [[] for _ in plants]
    infos = []
    for s in range(seeds):
        rows = [(a.seed(s), b.seed(s)) for a, b in plants]
        sums, kept = [], []
        for a, t in rows:
            fa, groups = features(inputs(a, hear), kind)
            ft, _ = features(inputs(t, hear), kind)
            r = a.y.double() - base(a, over)
            mf, mr = fa.mean(0), r.mean()
            c, rc = fa - mf, r - mr
            sums.append((c.T @ c, c.T @ rc, rc @ rc, len(r) - 1.0))
            kept.append((mf, mr, ft, t, fa, a, rc, c))
        total = [sum(p) for p in zip(*sums, strict=True)]
        if not alone:
            fitted = evidence(*total, groups, steps=steps)
        for i, (mf, mr, ft, t, _, a, rc, c) in enumerate(kept):
            w, S, noise, prior = evidence(*sums[i], groups, steps=steps) if alone else fitted
            z = ft - mf
            m = base(t, over) + mr + z @ w
            v = noise + ((z @ S) * z).sum(1) + noise / len(a.y)
            out[i].append(classes(m, v.sqrt()))
            # leave-one-out of the pooled fit: h = diag of hat matrix
            h = ((c @ S) * c).sum(1) / noise + 1 / len(a.y)
            res = (rc - c @ w) / (1 - h).clamp(min=0.05)
            loo = a.y.double() - res
            oof[i].append(classes(loo, (noise / (1 - h).clamp(min=0.05)).sqrt()))
        if not alone:
            infos.append([*prior.sqrt().tolist(), noise.sqrt().item()])
    return [torch.stack(o) for o in out], [torch.stack(o) for o in oof], torch.tensor(infos)


def inputs(p, hear):
    if not hear:
        return p.x
    return torch.cat([p.x, ((clamped(p.told) - 9.5) / 5)[:, None]], 1)


def clamped(t):
    return t.clamp(-0.5, 19.5)


def base(p, over):
    if over == "none":
        return torch.full_like(p.told, 9.5)
    return clamped(getattr(p, over))


def classes(m: Tensor, s: Tensor, k: int = 20) -> Tensor:
    """Discretised normal, (..., k) log-probabilities."""
    edges = torch.arange(k - 1, dtype=m.dtype) + 0.5
    cdf = torch.special.ndtr((edges - m[..., None]) / s[..., None])
    cdf = torch.cat([torch.zeros_like(cdf[..., :1]), cdf, torch.ones_like(cdf[..., :1])], -1)
    return cdf.diff(dim=-1).clamp(min=1e-30).log()


if __name__ == "__main__":
    from coke import Part

    plants = [[Part(**q) for q in p] for p in torch.load("/tmp/coke100.pt")]
    for over in ("told", "said", "middle", "none"):
        for kind in ("linear", "squares", "quadratic"):
            for hear in (False, True):
                p, o, info = run(plants, over=over, kind=kind, hear=hear)
                a = accuracy(p, plants)
                print(
                    over,
                    kind,
                    "hear" if hear else "",
                    f"{a.mean():.2f} ± {a.std() / 20**0.5:.2f}",
                    info.mean(0).numpy().round(3),
                    flush=True,
                )
