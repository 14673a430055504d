"""A filter as another package would write it: pads that the sites share hide single uploads.

Tests copy this file into a folder of its own and install it there as a distribution.
"""

import json
import os
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from fedlore.core.rng import stream
from fedlore.core.tree import flatten, nest
from fedlore.core.wire import Reply, Task

SUMMED = ("train", "moments", "gram")


@dataclass(frozen=True)
class Veil:
    size: float = 8.0

    name: ClassVar[str] = "a veil"
    hides: ClassVar[bool] = True
    kinds: ClassVar[dict[str, str]] = {"unveil": "the sum of the pads of these sites"}

    def make(self, around, place):
        seed = b""
        if place.role == "site":
            seed = place.path("veil", "veil.key").read_bytes()
        elif place.role == "process":
            seed = os.urandom(16)
        return Veiling(self.size, seed)

    def least(self, cohort):
        return min(cohort, 3)

    def share(self, place):
        path = place.path("veil", "veil.key")
        path.write_bytes(os.urandom(16))
        return path, "a seed"

    def remark(self, place):
        return "" if place.path("veil", "veil.key").exists() else "there is no veil.key"


@dataclass(frozen=True)
class Veiling:
    size: float
    seed: bytes

    name: ClassVar[str] = "veil"
    hides: ClassVar[bool] = True

    def site(self, name):
        return Half(name, self)

    def over(self, transport):
        return Server(transport)

    def flaw(self, task, reply, like):
        if task.kind == "unveil":
            return None if set(reply.upload) == {"pads"} else "no pads"
        shapes = {n: t.shape for n, t in flatten(like).items()}
        found = {n: t.shape for n, t in reply.upload.get("veiled", {}).items()}
        return None if set(reply.upload) == {"veiled"} and found == shapes else "no veil"

    def lines(self, *, rounds, sample, bare):
        return [f"veils of size {self.size:g} over {rounds} rounds"]


class Half:
    kinds = frozenset(Veil.kinds)

    def __init__(self, name, veiling):
        self.name, self.veiling, self.last = name, veiling, None

    def pads(self, site, task, like):
        g = stream(self.veiling.seed.hex(), site, task.round)
        return {
            n: self.veiling.size * torch.randn(t.shape, generator=g, dtype=torch.float64)
            for n, t in sorted(like.items())
        }

    def outbound(self, task, reply):
        self.last = flatten(reply.upload)
        pads = self.pads(self.name, task, self.last)
        veiled = {n: t.double() + pads[n] for n, t in self.last.items()}
        return replace(reply, upload={"veiled": veiled}, rows=0)

    def summed(self, task):
        return json.loads(bytes(task.sent["of"]["sites"].tolist()))

    def answer(self, task):
        pads = [self.pads(site, task, self.last) for site in self.summed(task)]
        return Reply(self.name, task.round, {"pads": {n: sum(p[n] for p in pads) for n in pads[0]}})


class Server:
    def __init__(self, transport):
        self.transport = transport

    def clients(self):
        return self.transport.clients()

    def exchange(self, task, to):
        replies = list(self.transport.exchange(task, to))
        if task.kind not in SUMMED:
            yield from replies
            return
        sites = sorted(r.client for r in replies)
        told = torch.tensor(list(json.dumps(sites).encode()), dtype=torch.uint8)
        asked = Task("unveil", task.round, {"of": {"sites": told}})
        pads = next(iter(self.transport.exchange(asked, sites))).upload["pads"]
        total = {n: sum(r.upload["veiled"][n] for r in replies) - t for n, t in pads.items()}
        like = {"moments": torch.float64}.get(task.kind, torch.float32)
        mean = nest({n: (t / len(sites)).to(like) for n, t in total.items()})
        yield Reply("the sum", task.round, mean, len(sites), members=tuple(sites))
