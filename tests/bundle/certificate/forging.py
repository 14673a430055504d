"""A forger's bench: the files of a site in his hands, and ways to change them and seal the lie."""

import hashlib
import json
import re
import zipfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from fedlore.bundle import bundle_of
from fedlore.bundle.archive import MANIFEST, manifest_of
from fedlore.bundle.certify import certify
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.checker import check, outcome_of
from fedlore.checker.certificate import explain_claim, seal
from fedlore.checker.graphs import Graph
from fedlore.checker.verdict import bundle_facts, graph_facts

helper, to_array, to_tensor = onnx.helper, onnx.numpy_helper.to_array, onnx.numpy_helper.from_array


@dataclass
class Site:
    """Files of a site: he changes parts and puts them back."""

    folder: Any
    certificate: dict
    members: dict
    model: onnx.ModelProto
    subject: str = "bundle"  # what he will show

    @staticmethod
    def of(folder, model, **parts):
        bundle = model if hasattr(model, "members") else bundle_of(model, "north", **parts)
        return Site(folder, certify(bundle), dict(bundle.members), bundle_to_onnx(bundle))

    def check(self, subject, *key):
        """The checker's lines on the bundle or on the graph."""
        (self.folder / "c.json").write_text(json.dumps(self.certificate))
        place = self.folder / ("m.onnx" if subject == "graph" else "forged.lore")
        if subject == "graph":
            place.write_bytes(self.model.SerializeToString())
        else:
            write_zip(place, self.members)
        return check(self.folder / "c.json", place, *key)

    def outcome(self, subject):
        lines = self.check(subject)
        return outcome_of(lines), [str(line) for line in lines if not line.holds]

    def reseal(self, *, boast=True):
        """The certificate as its forger would issue it for what is there now.

        `boast`: all of it is called proved, whatever it is.
        """
        said, files = self.certificate, self.members
        digests = {name: sha(data) for name, data in sorted(files.items())}
        said |= {"files": digests, "bundle": sha(manifest_of(files))}
        metadata = {entry.key: entry for entry in self.model.metadata_props}
        metadata["fedlore.bundle"].value = said["bundle"]
        try:
            said |= bundle_facts(files).derive()
        except Exception:  # what cannot be read is hashed all the same
            said["knowledge"] = {n: d for n, d in digests.items() if n.endswith((".toml", ".csv"))}
        try:
            graph = Graph(self.model.SerializeToString())
            said["graph"] = graph.digests()
            if self.subject == "graph":
                said |= replace(graph_facts(graph, said)[0], files=digests).derive()
        except Exception:
            pass
        if boast:
            for claim in said["claims"]:
                restate(claim, "proved")
            said["verdict"] = "proved"
        self.seal()

    def seal(self):
        self.certificate["sha256"] = seal(self.certificate)

    def header(self, change):
        """bundle.json, changed."""
        said = json.loads(self.members["bundle.json"])
        change(said)
        self.members["bundle.json"] = json.dumps(said).encode()

    def metadata(self, key, change):
        """What a graph says of itself, changed."""
        entry = next(e for e in self.model.metadata_props if e.key == f"fedlore.{key}")
        entry.value = json.dumps(change(json.loads(entry.value)))

    def knowledge(self, change):
        """The files of knowledge in bundle and graph alike, changed."""

        def changed(files):
            change(files)
            return files

        self.metadata("knowledge.files", changed)
        entry = next(e for e in self.model.metadata_props if e.key == "fedlore.knowledge.files")
        self.members |= {name: text.encode() for name, text in json.loads(entry.value).items()}

    def claims(self, **statuses):
        """Claims with other statuses; one that is not there is added."""
        named = {claim["claim"]: claim for claim in self.certificate["claims"]}
        for name, status in statuses.items():
            word = name.replace("_", "-")
            if word not in named:
                named[word] = {"claim": word, "status": "", "how": "", "needed": False}
                self.certificate["claims"].append(named[word])
            restate(named[word], status)
        self.seal()

    def insert(self, name, *nodes, **constants):
        """New nodes in front of the one that makes a value."""
        for key, value in constants.items():
            self.constant(key, value)
        place = list(self.model.graph.node).index(self.node(name))
        for at, one in enumerate(nodes):
            self.model.graph.node.insert(place + at, one)

    def prune(self):
        """Leave out what no output uses."""
        graph = self.model.graph
        wanted = {one.name for one in graph.output}
        for node in list(graph.node)[::-1]:
            if wanted & set(node.output):
                wanted |= set(node.input)
            else:
                graph.node.remove(node)
        for one in [one for one in graph.initializer if one.name not in wanted]:
            graph.initializer.remove(one)

    def constant(self, name, value):
        self.model.graph.initializer.append(to_tensor(np.asarray(value), name))

    @property
    def outputs(self):
        return [one.name for one in self.model.graph.output]

    def node(self, name):
        return next(n for n in self.model.graph.node if name in n.output)

    def nodes(self, kind):
        return [n for n in self.model.graph.node if n.op_type == kind]

    def tensors(self, pick, change):
        """Constants of a graph, changed where they fit."""
        hit = 0
        for one in self.model.graph.initializer:
            values = to_array(one)
            if pick(one.name, values):
                one.CopyFrom(to_tensor(change(values.copy()), one.name))
                hit += 1
        assert hit


def restate(claim, status):
    """Another verdict on a claim in the words an issuer has for it: nothing else gives it away."""
    boxes = re.search(r"over (\d+) boxes", claim["how"])
    if claim["status"] != status and (boxes or claim["claim"] == "monotone"):
        count = int(boxes[1]) if boxes else 0
        claim["how"] = explain_claim(claim["claim"], status, count, needed=claim["needed"])
        claim.pop("example", None)
    claim["status"] = status


def make(kind, inputs, output, **about):
    return helper.make_node(kind, inputs, [output], **about)


def sliver(column=1, middle=3.14159, half=0.0005):
    """Nodes and constants of `lie`, (n, 1): true in a part of the scope that no random row hits."""
    nodes = (
        make("Cast", ["rows"], "short", to=1),
        make("Gather", ["short", "column"], "there", axis=1),
        make("Sub", ["there", "middle"], "away"),
        make("Abs", ["away"], "size"),
        make("Less", ["size", "half"], "lie"),
    )
    constants = {"column": np.array([column], np.int64)}
    return nodes, constants | {"middle": np.float32(middle), "half": np.float32(half)}


def sha(data):
    return hashlib.sha256(data).hexdigest()


def write_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, MANIFEST: manifest_of(members)}.items():
            archive.writestr(name, data)
