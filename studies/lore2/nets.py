"""Federated networks with an ordinal head, all seeds and ensemble members in one batch."""

import math
from dataclasses import dataclass

import torch
from coke import accuracy
from oneround import clamped
from torch import Tensor


@dataclass(frozen=True)
class Net:
    start: str = "middle"  # none, middle, said, told
    heard: tuple[str, ...] = ("middle", "said", "gap")
    hidden: int = 32
    linear: bool = True
    quadratic: bool = False  # squares and products as inputs of the linear part
    scale: float = 1.0  # the network's output in places
    width: float = 0.7
    plain: float = 0.0  # share of the loss without the range
    private: tuple[str, ...] = ("shift", "width")
    bend: float = 0.0  # places at which the step away from the start saturates, in half ranges
    rounds: int = 40
    epochs: int = 5
    lr: float = 0.01
    decay: float = 5e-3
    clip: float = 5.0
    ensemble: int = 1
    alone: bool = False
    seed: int = 0
    shape: str = "normal"  # or logistic


class Bins(torch.autograd.Function):
    """Log of the discretised normal by the scaled complementary error function."""

    @staticmethod
    def forward(ctx, m, s, k):
        edges = torch.arange(k - 1, dtype=m.dtype) + 0.5
        z = ((edges - m[..., None]) / s[..., None]).clamp(-1e15, 1e15)
        far = torch.full_like(z[..., :1], 1e17)
        z = torch.cat([-far, z, far], -1)
        e = torch.special.erfcx(z.abs() / math.sqrt(2))
        a, b, ea, eb = z[..., :-1], z[..., 1:], e[..., :-1], e[..., 1:]
        left = b <= 0
        near, beyond = torch.where(left, -b, a), torch.where(left, -a, b)
        en, ef = torch.where(left, eb, ea), torch.where(left, ea, eb)
        tiny = torch.finfo(m.dtype).tiny
        gap = en - torch.exp(-(beyond - near) * (beyond + near) / 2) * ef
        side = -near * near / 2 + (gap / 2).clamp(min=tiny).log()
        over = 1 - (torch.exp(-a * a / 2) * ea + torch.exp(-b * b / 2) * eb) / 2
        p = torch.where((a < 0) & (b > 0), over.clamp(min=tiny).log(), side)
        ctx.save_for_backward(z, p, s)
        return p

    @staticmethod
    def backward(ctx, g):
        z, p, s = ctx.saved_tensors
        a, b = z[..., :-1], z[..., 1:]
        c = 1 / math.sqrt(2 * math.pi)
        fa, fb = c * torch.exp(-a * a / 2 - p), c * torch.exp(-b * b / 2 - p)
        gm = (g * (fa - fb)).sum(-1) / s
        gs = (g * (a * fa - b * fb)).sum(-1) / s
        return gm, gs, None


def classes(m: Tensor, s: Tensor, k: int = 20, shape: str = "normal") -> Tensor:
    if shape == "normal":
        return Bins.apply(m, s.expand_as(m), k)
    rate = math.pi / math.sqrt(3) / s[..., None]
    z = (torch.arange(k - 1, dtype=m.dtype) + 0.5 - m[..., None]) * rate
    soft = torch.nn.functional.softplus(z)
    none = torch.zeros_like(soft[..., :1])
    inner = torch.log(-torch.expm1(-rate)).expand(*z.shape[:-1], k - 2)
    return (
        torch.cat([z - soft, none], -1)
        - torch.cat([none, soft], -1)
        + torch.cat([none, inner, none], -1)
    )


def inputs(p, net: Net) -> tuple[Tensor, Tensor, Tensor]:
    def place(name):
        return clamped(p.told) if name == "told" else getattr(p, name)

    heard = []
    for h in net.heard:
        if h == "gap":
            heard.append(place("said") - place("middle"))
        else:
            heard.append((place(h) - 9.5) / 5)
    x = torch.cat([p.x, *(h.unsqueeze(-1) for h in heard)], -1).float()
    start = torch.full_like(p.middle, 9.5) if net.start == "none" else place(net.start)
    half = (p.allowed.sum(-1) / 2).float()
    return x, start.float(), half, p.middle.float()


def grow(x, net):
    if not net.quadratic:
        return x
    d = x.shape[-1]
    i, j = torch.triu_indices(d, d)
    q = x[..., i] * x[..., j]
    return torch.cat([x, 0.3 * q], -1)


def place_of(params, x, start, half, middle, net):
    """(e, b, d) -> (e, b)."""
    z = grow(x, net)
    out = params["bias"][:, None]
    if net.linear:
        out = out + (z @ params["line"].unsqueeze(-1)).squeeze(-1)
    if net.hidden:
        h = torch.relu(x @ params["w1"] + params["b1"][:, None])
        out = out + (h @ params["w2"].unsqueeze(-1)).squeeze(-1)
    m = start + params["shift"][:, None] * net.scale + net.scale * out
    if net.bend:
        h = net.bend * half
        m = middle + h * torch.tanh((m - middle) / h)
    return m, params["width"].exp()[:, None] * net.width


def train(plants, net: Net, *, trace=None):
    g = torch.Generator().manual_seed(net.seed + 17)
    S, E = plants[0][0].x.shape[0], net.ensemble
    many = S * E
    data = []
    for a, _ in plants:
        x, start, half, middle = inputs(a, net)
        data.append([t.repeat_interleave(E, 0) for t in (x, start, half, middle, a.y, a.allowed)])
    d = data[0][0].shape[-1]
    dz = grow(data[0][0][:1, :1], net).shape[-1]
    b = 1 / math.sqrt(d)

    def rand(*shape, bound):
        return (torch.rand(many, *shape, generator=g) * 2 - 1) * bound

    shared = {"bias": torch.zeros(many)}
    if net.linear:
        shared["line"] = torch.zeros(many, dz)
    if net.hidden:
        shared |= {
            "w1": rand(d, net.hidden, bound=b),
            "b1": rand(net.hidden, bound=b),
            "w2": rand(net.hidden, bound=1 / math.sqrt(net.hidden)),
        }
    shared |= {"shift": torch.zeros(many), "width": torch.zeros(many)}
    private = tuple(shared) if net.alone else net.private
    own = [{n: shared[n].clone() for n in private} for _ in plants]
    for r in range(net.rounds):
        rate = net.lr * 0.5 * (1 + math.cos(math.pi * r / net.rounds))
        ends = []
        for i, (x, start, half, middle, y, allowed) in enumerate(data):
            p = {n: (own[i][n] if n in own[i] else t).clone() for n, t in shared.items()}
            speed = {n: torch.zeros_like(t) for n, t in p.items()}
            n = x.shape[1]
            for _ in range(net.epochs):
                order = torch.rand(many, n, generator=g).argsort(1)
                for at in torch.split(order, 32, 1):
                    q = {k: v.requires_grad_(True) for k, v in p.items()}

                    def pick(t, at=at):
                        ix = at if t.ndim == 2 else at[..., None].expand(-1, -1, t.shape[2])
                        return t.gather(1, ix)

                    m, s = place_of(q, pick(x), pick(start), pick(half), pick(middle), net)
                    f = classes(m, s, shape=net.shape)
                    yy, al = pick(y)[..., None], pick(allowed)
                    loss = 0.0
                    if net.plain > 0:
                        loss = loss - net.plain * f.log_softmax(-1).gather(-1, yy).mean(1).sum()
                    if net.plain < 1:
                        inside = f.masked_fill(~al, -1e9).log_softmax(-1)
                        loss = loss - (1 - net.plain) * inside.gather(-1, yy).mean(1).sum()
                    grads = torch.autograd.grad(loss, list(q.values()))
                    with torch.no_grad():
                        sq = sum(v.reshape(many, -1).square().sum(1) for v in grads)
                        cut = (net.clip / sq.sqrt()).clamp(max=1.0)
                        for (k, v), gr in zip(p.items(), grads, strict=True):
                            v = v.detach()
                            step = gr * cut.view(-1, *[1] * (gr.ndim - 1)) + net.decay * v
                            speed[k] = 0.9 * speed[k] + step
                            p[k] = v - rate * speed[k]
            ends.append(p)
            own[i] = {k: p[k].detach() for k in own[i]}
        shared = {k: torch.stack([e[k].detach() for e in ends]).mean(0) for k in shared}
    out = []
    with torch.no_grad():
        for i, (_, t) in enumerate(plants):
            x, start, half, middle = (q.repeat_interleave(E, 0) for q in inputs(t, net))
            f = classes(*place_of(shared | own[i], x, start, half, middle, net), shape=net.shape)
            f = f.masked_fill(~t.allowed.repeat_interleave(E, 0), -torch.inf).log_softmax(-1)
            out.append(f.view(S, E, *f.shape[1:]))
    return out


def mixed(out):
    """The mean of the members' probabilities."""
    return [f.double().exp().mean(1).log() for f in out]


def single(out):
    return [f[:, 0].double() for f in out]


if __name__ == "__main__":
    import sys
    import time

    from coke import Part

    torch.set_num_threads(1)
    plants = [[Part(**q) for q in p] for p in torch.load(sys.argv[1])]
    for text in sys.argv[2:]:
        t = time.time()
        net = eval(f"Net({text})")
        out = train(plants, net)
        a, e = accuracy(single(out), plants), accuracy(mixed(out), plants)
        loss = torch.stack([
            -f.gather(-1, t.y[..., None]).mean()
            for f, (_, t) in zip(mixed(out), plants, strict=True)
        ]).mean()  # fmt: skip
        print(
            f"{text:90s} {a.mean():.2f} ± {a.std() / 20**0.5:.2f}  mixed {e.mean():.2f} "
            f"nll {loss:.4f}  "
            f"{time.time() - t:.0f} s",
            flush=True,
        )
