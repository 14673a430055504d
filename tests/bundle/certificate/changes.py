"""Ways in which a machine forges: each changes a site somewhere at random and says where."""

import json
import math
import re

import numpy as np
import onnx

from .forging import helper, make, sliver, to_array, to_tensor

WILD = (math.nan, math.inf, -math.inf, 1e300, -1e300, 3e38, 1e39, 0.0, -1.0, 0.95, 5e-324)


class Skip(Exception):
    """A change for which there is no place."""


def other_operator(site, dice):
    """An operator in place of another with as many inputs."""
    groups = (
        ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"),
        ("And", "Or", "Xor"),
        ("Add", "Sub", "Mul", "Div", "Max", "Min"),
        ("ReduceMax", "ReduceMin", "ReduceMean"),
        ("ArgMax", "ArgMin"),
        ("Relu", "Abs", "Neg", "Tanh", "Sigmoid", "Softplus", "Exp", "Identity"),
    )
    node = dice.choice([n for n in site.model.graph.node if any(n.op_type in g for g in groups)])
    group = next(g for g in groups if node.op_type in g)
    node.op_type = dice.choice([one for one in group if one != node.op_type])
    return node.op_type


def other_attribute(site, dice):
    node = dice.choice([n for n in site.model.graph.node if n.attribute] or [None])
    if node is None:
        raise Skip
    one = dice.choice(list(node.attribute))
    if one.type == onnx.AttributeProto.INT:
        one.i = dice.choice([0, 1, -1, 2, 7, 10, 11, 1 - one.i])
    elif one.type == onnx.AttributeProto.INTS:
        one.ints[0] = dice.choice([0, -1, 1, 2])
    elif one.type == onnx.AttributeProto.FLOAT:
        one.f = dice.choice([-1.0, 1e-30, 3e38, 0.0])
    return f"{one.name} of {node.op_type}"


def further_attribute(site, dice):
    name, value = dice.choice([("select_last_index", 1), ("noop_with_empty_axes", 1), ("axis", 0),
                               ("keepdims", 0), ("transA", 1), ("beta", 0.5), ("exclusive", 1),
                               ("reverse", 1), ("fmod", 1)])  # fmt: skip
    node = dice.choice(list(site.model.graph.node))
    if any(one.name == name for one in node.attribute):
        raise Skip
    node.attribute.append(helper.make_attribute(name, value))
    return f"{name} on {node.op_type}"


def constant_value(site, dice):
    """A number among the constants, another."""
    tensor = dice.choice([t for t in site.model.graph.initializer if to_array(t).size])
    values = to_array(tensor).copy()
    place = dice.randrange(values.size)
    if values.dtype.kind == "f":
        old = values.flat[place]
        near = np.nextafter(old, values.dtype.type(dice.choice([-9e9, 9e9])))
        with np.errstate(over="ignore"):
            values.flat[place] = dice.choice([*WILD, near, -old, old + 0.05])
    elif values.dtype == bool:
        values.flat[place] ^= True
    else:
        values.flat[place] += dice.choice([-1, 1])
    tensor.CopyFrom(to_tensor(values, tensor.name))
    return f"{tensor.name} holds {values.flat[place]}"


def learned_value(site, dice):
    """A number of the network, its scaler or a member, another."""
    kept = [t for t in site.model.graph.initializer if t.name.startswith(("model.", "scaler."))]
    tensor = dice.choice(kept or [None])
    if tensor is None:
        raise Skip
    values = to_array(tensor).copy()
    if dice.random() < 0.3:
        values = values.astype(np.float64)
    with np.errstate(over="ignore"):
        values.flat[dice.randrange(values.size)] = dice.choice(WILD)
    tensor.CopyFrom(to_tensor(values, tensor.name))
    if dice.random() < 0.3:  # by another name
        old, tensor.name = tensor.name, f"constant_{dice.randrange(10**6)}"
        for node in site.model.graph.node:
            for place, name in enumerate(node.input):
                node.input[place] = tensor.name if name == old else name
    return tensor.name


def other_input(site, dice):
    """A node that reads another value than it did."""
    nodes = list(site.model.graph.node)
    place = dice.randrange(1, len(nodes))
    node = nodes[place]
    before = [name for n in nodes[:place] for name in n.output]
    before += [t.name for t in site.model.graph.initializer] + ["rows"]
    node.input[dice.randrange(len(node.input))] = dice.choice(before)
    return f"into {node.op_type}"


def floats(site, kind=onnx.TensorProto.FLOAT):
    """Values of rows by type, with the nodes that make them."""
    full = onnx.shape_inference.infer_shapes(site.model, data_prop=True).graph
    types = {v.name: v.type.tensor_type.elem_type for v in full.value_info}
    nodes = [n for n in site.model.graph.node if types.get(n.output[0]) == kind]
    if not nodes:
        raise Skip
    return nodes


def reroute(site, old, new):
    """All that read one value read another, but for the nodes that make it."""
    made = new
    sources = {made}
    for node in reversed(site.model.graph.node):
        if sources & set(node.output):
            sources |= set(node.input) - {old}
    for node in site.model.graph.node:
        if not sources & set(node.output):
            for place, name in enumerate(node.input):
                node.input[place] = new if name == old else name


def append_after(site, name, nodes, constants):
    for key, value in constants.items():
        site.constant(key, value)
    place = next(i for i, n in enumerate(site.model.graph.node) if name in n.output) + 1
    for at, one in enumerate(nodes):
        site.model.graph.node.insert(place + at, one)


def wild_sliver(site, dice):
    """Another value in a sliver of the scope."""
    kind = dice.choice([onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.BOOL])
    node = dice.choice(floats(site, kind))
    name, value = node.output[0], dice.choice(WILD)
    nodes, constants = sliver(column=0, middle=dice.choice([3.14159, 1.0, 7.7]))
    tensor = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.DOUBLE: np.float64}.get(kind)
    with np.errstate(over="ignore"):
        odd = np.bool_(dice.random() < 0.5) if tensor is None else tensor(value)
    nodes = [*nodes, make("Where", ["lie", "odd", name], "lied")]
    append_after(site, name, nodes, constants | {"odd": odd})
    reroute(site, name, "lied")
    return f"{value} for {name}"


def added_number(site, dice):
    """A constant of any size added to a value, under a name of its own."""
    node = dice.choice(floats(site))
    name, value = node.output[0], dice.choice(WILD)
    with np.errstate(over="ignore"):
        append_after(site, name, [make("Add", [name, "mine"], "more")], {"mine": np.float32(value)})
    reroute(site, name, "more")
    return f"{value} added to {name}"


def wide_clip(site, dice):
    """The guard of scores, made in double and cast to single behind it."""
    clips = site.nodes("Clip")
    if not clips:
        raise Skip
    clip, size = dice.choice(clips), dice.choice([1e300, 1e39, 3e38])
    score, out = clip.input[0], clip.output[0]
    double = [
        make("Cast", [score], "wide", to=11),
        make("Mul", ["wide", "large"], "larger"),
        make("Clip", ["larger", "least", "most"], "held"),
        make("Cast", ["held"], "short_again", to=1),
    ]
    sizes = {"large": np.float64(dice.choice([1.0, 1e60]))}
    site.insert(out, *double, **sizes, least=np.float64(-size), most=np.float64(size))
    if dice.random() < 0.5:  # in place of the old guard, not before it
        position = list(site.model.graph.node).index(clip)
        del site.model.graph.node[position]
        reroute(site, out, "short_again")
    else:
        clip.input[0] = "short_again"
    return f"{size}"


def cast_between(site, dice):
    """A value through another type and back."""
    node, kind = dice.choice(floats(site)), dice.choice([11, 10, 6, 7, 16])
    name = node.output[0]
    there_and_back = [make("Cast", [name], "there", to=kind), make("Cast", ["there"], "back", to=1)]
    append_after(site, name, there_and_back, {})
    reroute(site, name, "back")
    return f"{name} through type {kind}"


def second_output(site, dice):
    """An operator's second result, which counts rows or sums them up."""
    nodes = site.nodes("Gemm") or site.nodes("MatMul")
    if not nodes:
        raise Skip
    first = dice.choice(nodes)
    inner = first.input[0]
    if dice.random() < 0.5:
        new = [
            make("Unsqueeze", [inner, "axis_1"], "deep"),
            helper.make_node("MaxPool", ["deep"], ["tops", "places"], kernel_shape=[1]),
            make("Squeeze", ["places", "axis_1"], "flat"),
            make("Cast", ["flat"], "numbers", to=1),
        ]
        constants = {"axis_1": np.array([1], np.int64)}
    else:
        new = [helper.make_node("TopK", [inner, "one"], ["numbers", "which"], axis=0)]
        constants = {"one": np.array([1], np.int64)}
    site.insert(first.output[0], *new, make("Add", [inner, "numbers"], "odd"), **constants)
    first.input[0] = "odd"
    return new[-1].op_type


def frame(site, dice):
    """Inputs and outputs, operator sets and the file around them."""
    graph, way = site.model.graph, dice.randrange(8)
    if way == 0:
        kinds = [onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT]
        graph.input[0].type.tensor_type.elem_type = dice.choice(kinds)
        if dice.random() < 0.8:  # so that the graph is valid all the same
            for node in graph.node:
                for place, name in enumerate(node.input):
                    node.input[place] = "wide_rows" if name == "rows" else name
            graph.node.insert(0, make("Cast", ["rows"], "wide_rows", to=11))
    elif way == 1:
        graph.input[0].type.tensor_type.shape.dim[0].dim_value = dice.choice([1, 3])
    elif way == 2:
        one, two = dice.sample(range(len(graph.output)), 2)
        kept = onnx.ValueInfoProto()
        kept.CopyFrom(graph.output[one])
        graph.output[one].CopyFrom(graph.output[two])
        graph.output[two].CopyFrom(kept)
    elif way == 3:
        del graph.output[dice.randrange(len(graph.output))]
    elif way == 4:
        site.model.opset_import[0].version = dice.choice([13, 16, 18, 21])
    elif way == 5:
        entry = dice.choice(list(site.model.metadata_props))
        text = entry.value.replace(dice.choice(["1", "0", "a"]), dice.choice(["2", "b", ""]), 1)
        entry.value = text
    elif way == 6:
        site.model.metadata_props.add(key=dice.choice(["fedlore.classes", "note"]), value="[]")
    else:
        site.model.opset_import.add(domain="com.microsoft", version=1)
    return f"way {way}"


def other_trust(site, dice):
    """λ, another, wherever it stands alone."""
    small = [
        t
        for t in site.model.graph.initializer
        if to_array(t).size == 1 and to_array(t).dtype.kind == "f" and 0 < to_array(t).item() < 1
    ]
    if not small:
        raise Skip
    for tensor in dice.sample(small, dice.randint(1, min(2, len(small)))):
        values = to_array(tensor)
        tensor.CopyFrom(to_tensor(np.full_like(values, dice.choice([0.95, 0.05])), tensor.name))
    if dice.random() < 0.5:
        site.header(lambda h: h.__setitem__("rely", 0.95))
    return "λ"


# --- what a runtime reads otherwise than a checker might ---


def scores_of_others(site, dice):
    """Scores in front of a guard that lie in one line, hang on all rows, or belong to no row."""
    guards = [n for n in site.nodes("Clip") if site.node(n.input[0]).op_type == "Where"]
    if not guards:
        raise Skip
    where = site.node(dice.choice(guards).input[0])
    score, nan = where.input[2], site.node(where.input[0])
    wide = "number" in site.outputs
    flat = make("ReduceMax", [score], "flat", axes=[1], keepdims=0)
    ones = np.ones((1,) if dice.random() < 0.5 else (), np.float64 if wide else np.float32)
    across = make("LayerNormalization", ["flat", "ones"], "level", axis=-1, epsilon=1e-5)
    column = make("Unsqueeze", ["level", "last"], "column")
    rows = np.arange(20.0).reshape(dice.choice([(20, 1), (5, 4), (4, 5), (1, 20), (20,)]))
    nodes, constants = dice.choice([
        ([flat], {}),
        ([flat, across], {"ones": ones}),
        ([flat, across, column], {"ones": ones, "last": np.array([1])}),
        ([make("Add", [score, "places"], "odd")], {"places": rows.astype(ones.dtype)}),
        ([make("Identity", ["places"], "odd")], {"places": rows.astype(ones.dtype)}),
    ])  # fmt: skip
    site.insert(nan.output[0], *nodes, **constants)
    nan.input[0] = where.input[2] = nodes[-1].output[0]
    return f"{nodes[-1].op_type} behind {len(nodes) - 1}"


def believed_sizes(site, dice):
    """Sizes and names that a file states of its values, and a runtime may believe."""
    graph, way = site.model.graph, dice.randrange(5)
    if way < 2:
        full = onnx.shape_inference.infer_shapes(site.model, data_prop=True).graph
        for value in dice.sample(list(full.value_info), len(full.value_info) // 2):
            dims = value.type.tensor_type.shape.dim
            if dims and not dims[0].HasField("dim_value"):
                dims[0].dim_value = 1 if way else 3
                graph.value_info.append(value)
    elif way == 2:
        first = dice.choice([*graph.input, *graph.output]).type.tensor_type.shape.dim[0]
        first.Clear()
        first.dim_param = dice.choice(["k", "", "N"])
    elif way == 3:
        for node in graph.node:
            node.name = dice.choice(["same", "other"])
    else:
        graph.quantization_annotation.add(tensor_name=graph.node[-1].output[0])
    return f"way {way}"


def lesser_output(site, dice):
    """An output that is one of its own kind, or another of the same type."""
    graph = site.model.graph
    kinds = {one.name: str(one.type) for one in graph.output}
    pairs = [(a, b) for a in kinds for b in kinds if a < b and kinds[a] == kinds[b]]
    if not pairs:
        raise Skip
    swap = dict([dice.choice(pairs)])
    swap |= {b: a for a, b in swap.items()}
    for node in graph.node:
        for part in (node.input, node.output):
            part[:] = [swap.get(name, name) for name in part]
    return " for ".join(swap)


# --- changes of bundles, knowledge and certificates ---


def leaves(value, path=()):
    """Every place of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))


def change_leaf(value, dice):
    """Another value somewhere in a JSON value, a key more or a key less."""
    path = dice.choice([p for p in leaves(value) if p])
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    old, last = inner[path[-1]], path[-1]
    way = dice.random()
    if way < 0.1 and isinstance(inner, dict):
        del inner[last]
    elif way < 0.2 and isinstance(inner, dict):
        inner[dice.choice(["note", "expert", "confusion", "kind"])] = dice.choice([0.95, "x", None])
    elif isinstance(old, bool) or old is None:
        inner[last] = dice.choice([True, False, None, 0.95])
    elif isinstance(old, int | float):
        inner[last] = dice.choice([*(w for w in WILD if math.isfinite(w)), -old, old + 1, 1e39])
    elif isinstance(old, list) and old:
        inner[last] = dice.choice([old[::-1], old[1:], old + old[:1]])
    elif isinstance(old, str):
        words = ["proved", "unknown", "refuted", "abstain", "restrict", "error", "", old + "x"]
        inner[last] = dice.choice(words)
    return ".".join(map(str, path))


def header_leaf(site, dice):
    said = json.loads(site.members["bundle.json"])
    words = change_leaf(said, dice)
    site.members["bundle.json"] = json.dumps(said).encode()
    return words


def shape_number(site, dice):
    """A slope, width or weight in the header that turns what stands behind it."""
    said = json.loads(site.members["bundle.json"])
    spots = [p for p in leaves(said) if p and p[-1] in ("slope", "width", "weight", "network")]
    if not spots:
        raise Skip
    *path, last = dice.choice(spots)
    inner = said
    for key in path:
        inner = inner[key]
    inner[last] = dice.choice([-0.1, 0.0, 1e39, -1e9])
    site.members["bundle.json"] = json.dumps(said).encode()
    return f"{last} {inner[last]}"


def key_twice(site, dice):
    text = site.members["bundle.json"].decode()
    key = dice.choice(['"conflict": "error"', '"rely": 0.95', '"confusion": null', '"trust": 1'])
    site.members["bundle.json"] = text.replace("{", "{" + key + ", ", 1).encode()
    return key


def stored_weight(site, dice):
    name = dice.choice([n for n in site.members if n.endswith(".safetensors")])
    data = bytearray(site.members[name])
    with np.errstate(over="ignore"):
        data[-4:] = np.float32(dice.choice(WILD)).tobytes()
    site.members[name] = bytes(data)
    return name


def confusion(site, dice):
    """An expert heard through rows that nobody learned."""
    k = len(site.certificate["classes"] or ()) or 4
    rows = np.eye(k)
    way = dice.randrange(3)
    if way == 0:
        rows[0, :2] = 1.3, -0.3
    elif way == 1:
        rows = rows[::-1]
    else:
        rows = rows * 0.5
    site.certificate["confusion"] = rows.tolist()
    site.header(lambda h: h.__setitem__("confusion", rows.tolist()))
    return f"way {way}"


def knowledge_text(site, dice):
    """A line or a number of the knowledge, another, in bundle and graph alike."""

    def change(files):
        name = dice.choice(sorted(files))
        lines = files[name].splitlines()
        place = dice.randrange(len(lines))
        way = dice.randrange(7)
        if way == 0:
            lines.insert(place, dice.choice(lines))
        elif way == 1:
            del lines[place]
        elif way == 2:
            for old in ("7.7", "3.0", "low", "<=", "..", "IV", "0.3", "raises", "40"):
                if old in lines[place]:
                    new = dice.choice(["7.75", "1e39", "-1", "high", "<", "I", "nan", "lowers"])
                    lines[place] = lines[place].replace(old, new, 1)
                    break
        elif way == 3:
            lines[place] = lines[place].replace('"', "'")
        elif way == 4 and name.endswith(".toml"):
            swap = {"low = 0": "low = 50", "high = 40": "high = -1", "trust = 0.3": "trust = 0.95",
                    '"abstain"': '"restrict"', "lower = 0": "lower = 20"}  # fmt: skip
            old = dice.choice(sorted(swap))
            lines = "\n".join(lines).replace(old, swap[old], 1).splitlines()
        elif way == 5 and name.endswith(".toml"):
            names = [entry["feature"] for entry in site.certificate["scope"]]
            one, two = (dice.choice(names) for _ in range(2))
            ends = [i for i, line in enumerate(lines) if line.startswith("effect")]
            ends = ends or [place]
            lines.insert(dice.choice(ends) + 1, f'where = "{one} > {two}"')
        elif way == 6 and name.endswith(".toml"):  # no scope
            lines = [line for line in lines if not line.startswith(("low =", "high ="))]
        files[name] = "\n".join(lines) + "\n"
        return f"way {way} in {name}"

    said = []

    def tell(files):
        said.append(change(files))

    site.knowledge(tell)
    return said[0]


def near_number(site, dice):
    """A number of the knowledge where readers, types and operators part."""
    new = dice.choice(["-0.0", "0", "1e-45", "1e-46", "-1e-45", "1.1754943e-38", "3.4028235e38",
                       "3.4028236e38", "16777217", "9007199254740993", "0.1", "1e-320", "1e400",
                       "7.7e0", "1,5"])  # fmt: skip

    def change(files):
        name = dice.choice(sorted(files))
        found = list(re.finditer(r"(?<![\w.])-?\d+(\.\d+)?(?![\w.])", files[name]))
        if not found:
            raise Skip
        at = dice.choice(found)
        files[name] = files[name][: at.start()] + new + files[name][at.end() :]

    site.knowledge(change)
    return new


def look_alike(site, dice):
    """A name of a column, a class or a level in letters that look the same, once or everywhere."""
    looks = {"a": "\u0430", "e": "\u0435", "i": "\u0456", "I": "\u0406", "s": "\u017f"}
    more = ("\u200b", "\u0301", " ", "\u00a0", "\ufeff")

    def change(files):
        name = dice.choice(sorted(files))
        words = re.findall(r"[A-Za-z]{2,}", files[name])
        word = dice.choice(words)
        letters = [c for c in word if c in looks] or [word[0]]
        letter = dice.choice(letters)
        odd = word.replace(letter, looks.get(letter, letter.upper()), 1)
        odd = dice.choice([odd, odd, word + dice.choice(more), word.upper(), word.title()])
        chosen = sorted(files) if dice.random() < 0.3 else [name]
        count = -1 if len(chosen) > 1 else 1
        for one in chosen:
            files[one] = files[one].replace(word, odd, count)
        return f"{word} {odd!a}"

    said = []
    site.knowledge(lambda files: said.append(change(files)))
    return said[0]


def dated_rules(site, dice):
    """Rules with days: the first and the last, one that is none, the wrong way round."""
    days = ["2026-03-01", "2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "", "-"]
    first, last = dice.choice(days), dice.choice(days)
    if dice.random() < 0.7:
        site.certificate["as_of"] = dice.choice([*days, None, 20260301])
    for entry in list(site.model.metadata_props):
        if entry.key == "fedlore.as_of":
            site.model.metadata_props.remove(entry)
    if "as_of" in site.certificate and dice.random() < 0.8:
        site.model.metadata_props.add(key="fedlore.as_of", value=str(site.certificate["as_of"]))

    def change(files):
        tables = [n for n in files if n.endswith(".csv")]
        if not tables:
            raise Skip
        name = dice.choice(sorted(tables))
        head, *rules = files[name].splitlines()
        rules = [f"{rule},{first if i else last},{last}" for i, rule in enumerate(rules)]
        files[name] = "\n".join([f"{head},from,until", *rules]) + "\n"

    site.knowledge(change)
    return f"{first} to {last}, as of {site.certificate.get('as_of')}"


def odd_json(site, dice):
    """A value that JSON allows and readers take differently, in place of a number of the header."""
    text = site.members["bundle.json"].decode()
    found = list(re.finditer(r"(?<=[\s:\[])-?\d+(\.\d+)?(e-?\d+)?(?=[,\s\]}])", text))
    at = dice.choice(found)
    new = dice.choice(["1e999", "-1e999", "NaN", "-Infinity", "9007199254740993", "-0.0", "1e-400",
                       "1E0", "01", "1.0", "true", '"1"', "[1]", str(10**400)])  # fmt: skip
    site.members["bundle.json"] = (text[: at.start()] + new + text[at.end() :]).encode()
    return f"{new[:20]} for {at[0]}"


def other_bytes(site, dice):
    """Tensors that share their bytes, leave some out, or have another type, name or order."""
    name = dice.choice([n for n in site.members if n.endswith(".safetensors")])
    data = site.members[name]
    size = int.from_bytes(data[:8], "little")
    head, way = json.loads(data[8 : 8 + size]), dice.randrange(6)
    tensors = sorted(one for one in head if one != "__metadata__")
    one, two = dice.choice(tensors), dice.choice(tensors)
    begin, end = head[one]["data_offsets"]
    if way == 0:
        head[one]["data_offsets"] = [0, end - begin]
    elif way == 1:
        head[one]["data_offsets"] = [begin - (1 << 40), end - (1 << 40)]
    elif way == 2:
        head[one], head[two] = head[two], head[one]
    elif way == 3:
        head[one]["dtype"] = dice.choice(["I32", "F16", "BF16", "F64"])
    elif way == 4:
        head["more"] = head[one]
    else:
        head[one]["shape"] = head[one]["shape"][::-1]
    said = json.dumps(head).encode()
    site.members[name] = len(said).to_bytes(8, "little") + said + data[8 + size :]
    return f"way {way} in {name}: {one}"


def second_kind(site, dice):
    """A source of two kinds, of which readers may take one each, with a table of the forger's."""
    kinds = ['conformal = "x"', 'lower = "1"', 'formula = "5"', 'interpolate = "evil.csv"',
             "confidence = 0.9", 'model = "x.onnx"']  # fmt: skip
    extra, side = dice.choice(kinds), dice.choice(["range", "range", "predict"])

    def change(files):
        word = (site.certificate["classes"] or ["1"])[0]
        files["evil.csv"] = f"{site.certificate['scope'][0]['feature']},then\n> 0.1,{word}\n"
        files["knowledge.toml"] += f'\n[[{side}.sources]]\ntable = "evil.csv"\n{extra}\n'

    site.knowledge(change)
    return f"{extra} in {side}"


def foreign_file(site, dice):
    name = dice.choice(["table-9.csv", "weights.bin", "p.csv"])
    site.members.setdefault(name, b"ash,then\n> 7.7,IV\n")
    return name


def certificate_leaf(site, dice):
    return change_leaf(site.certificate, dice)


def claims_proved(site, dice):
    if dice.random() < 0.5:
        names = [claim["claim"] for claim in site.certificate["claims"]]
        if "monotone" not in names:
            one = {"claim": "monotone", "status": "proved", "how": "", "needed": False}
            site.certificate["claims"].append(one)
    for claim in site.certificate["claims"]:
        claim["status"] = "proved"
    site.certificate["verdict"] = "proved"
    return "all"


GRAPH = (other_operator, other_attribute, further_attribute, constant_value, learned_value,
         other_input, wild_sliver, added_number, wide_clip, cast_between, second_output, frame,
         other_trust, confusion, scores_of_others, believed_sizes, lesser_output)  # fmt: skip
BUNDLE = (header_leaf, shape_number, key_twice, stored_weight, foreign_file, confusion, odd_json,
          other_bytes)  # fmt: skip
TEXTS = (knowledge_text, knowledge_text, second_kind, near_number, look_alike,
         dated_rules)  # fmt: skip
CERTIFICATE = (certificate_leaf, claims_proved)
#: What leaves the network, scaler and members as they were.
OUTSIDE = (other_trust, confusion, frame, *TEXTS, *CERTIFICATE)
