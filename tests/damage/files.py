# SPDX-License-Identifier: Apache-2.0
"""Damaged model files, made from the golden ones: bit flips, cuts, hostile counts and sizes, missing and cyclic parts.

Everything is a function of the kind's name, so that a failing case can be made again."""
import functools
import json
import pathlib
import random
import shutil
import struct
from dataclasses import dataclass
from typing import Callable

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
CASES_PER_KIND = 200


@dataclass
class Case:
    name: str
    write: Callable[[pathlib.Path], pathlib.Path]  # makes the damaged model in a folder; returns what to open
    files: tuple = ()  # one of them must be named in the refusal
    words: str = ""  # must be in the refusal
    may_load: bool = False  # a change that may leave a valid file


def edited(source: bytes, position: int, new: bytes) -> bytes:
    return source[:position] + new + source[position + len(new):]


def flipped(source: bytes, position: int, bit: int) -> bytes:
    return edited(source, position, bytes([source[position] ^ 1 << bit]))


# ---- GGUF ----------------------------------------------------------------------------------------------------------

GGUF_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Gguf:
    """Where things are in a GGUF file: `keys` {name: (start of entry, type, start of value, end)}, `tensors`
    {name: (start of row, start of shape, number of dimensions)}."""

    def __init__(self, data: bytes):
        self.data = data
        num_tensors, num_keys = struct.unpack_from("<QQ", data, 8)
        at, self.keys, self.tensors = 24, {}, {}
        for _ in range(num_keys):
            start, (name, at) = at, self.string(at)
            (kind,) = struct.unpack_from("<I", data, at)
            end = self.value_end(kind, at + 4)
            self.keys[name] = (start, kind, at + 4, end)
            at = end
        self.keys_end = at
        for _ in range(num_tensors):
            start, (name, at) = at, self.string(at)
            (dims,) = struct.unpack_from("<I", data, at)
            self.tensors[name] = (start, at + 4, dims)
            at += 4 + 8 * dims + 12
        self.header_end = at
        self.data_start = (at + 31) // 32 * 32

    def string(self, at):
        (size,) = struct.unpack_from("<Q", self.data, at)
        return self.data[at + 8 : at + 8 + size].decode("utf-8", "replace"), at + 8 + size

    def value_end(self, kind, at):
        if kind == 8:
            return self.string(at)[1]
        if kind != 9:
            return at + GGUF_SIZES[kind]
        element, count = struct.unpack_from("<IQ", self.data, at)
        at += 12
        if element in GGUF_SIZES:
            return at + GGUF_SIZES[element] * count
        for _ in range(count):
            at = self.value_end(element, at)
        return at


def gguf_hostile():
    source = (DATA / "gguf" / "llama_gqa-Q2_K.gguf").read_bytes()
    g = Gguf(source)
    first_tensor = next(iter(g.tensors))

    def at(position, format, *values):
        return edited(source, position, struct.pack(format, *values))

    cases = {
        "empty": (b"", "magic"),
        "magic": (b"GGML" + source[4:], "not a GGUF file"),
        "big-endian": (at(4, ">I", 3), "big-endian"),
        "version 1": (at(4, "<I", 1), "version"),
        "version 2^31": (at(4, "<I", 1 << 31), "version"),
        "joined": (source + source, ""),
        "zeros": (bytes(len(source)), "not a GGUF file"),
    }
    for power in (16, 31, 40, 60, 63):
        cases[f"tensor count 2^{power}"] = (at(8, "<Q", 1 << power), "")
        cases[f"metadata count 2^{power}"] = (at(16, "<Q", 1 << power), "")
    for key, (start, kind, value, _) in g.keys.items():
        short = key.split(".")[-1]
        cases[f"{short}: value type 99"] = (at(value - 4, "<I", 99), "99")
        cases[f"{short}: key of 2^50 bytes"] = (at(start, "<Q", 1 << 50), "")
        if kind == 8:
            cases[f"{short}: string of 2^62 bytes"] = (at(value, "<Q", 1 << 62), key)
        if kind == 9:
            cases[f"{short}: array of 2^40"] = (at(value + 4, "<Q", 1 << 40), key)
            cases[f"{short}: array of 2^63 - 1"] = (at(value + 4, "<Q", (1 << 63) - 1), key)
            cases[f"{short}: array of nothing"] = (at(value, "<I", 88), "88")
    for key in ("block_count", "embedding_length", "feed_forward_length", "attention.head_count", "context_length"):
        _, kind, value, _ = g.keys["llama." + key]
        assert kind == 4, key
        for bad in (0, 0x7FFFFFFF, 0xFFFFFFFF):
            if (key, bad) != ("context_length", 0x7FFFFFFF):  # a long context is not wrong
                cases[f"{key} {bad}"] = (at(value, "<I", bad), "llama." + key)
    row, shape, dims = g.tensors[first_tensor]
    for bad in (0, 5, 1 << 31):
        cases[f"{bad} dimensions"] = (at(shape - 4, "<I", bad), first_tensor)
    for bad in (0, 1 << 40, 1 << 62, (1 << 63) - 1, (1 << 64) - 1):
        cases[f"dimension {bad}"] = (at(shape, "<Q", bad), first_tensor)
    for bad in (40 if dims > 1 else 1, 1 << 61):
        cases[f"last dimension {bad}"] = (at(shape + 8 * (dims - 1), "<Q", bad), first_tensor)
    for bad in (4, 39, 1000, (1 << 32) - 1):
        cases[f"type {bad}"] = (at(shape + 8 * dims, "<I", bad), first_tensor)
    for bad in (1, 1 << 40, (1 << 64) - 32):
        cases[f"offset {bad}"] = (at(shape + 8 * dims + 4, "<Q", bad), first_tensor)
    cases["two tensors at one place"] = (at(shape + 8 * dims + 4, "<Q", 64), "")

    for name, (data, words) in cases.items():
        yield Case(name, one_file("m.gguf", data), ("m.gguf",), words)


def one_file(name, data):
    def write(folder):
        (folder / name).write_bytes(data)
        return folder / name

    return write


def gguf_random(rng):
    source = (DATA / "gguf" / "llama_gqa-Q2_K.gguf").read_bytes()
    header = Gguf(source).header_end
    for size in sorted(rng.sample(range(4, len(source) - 32), 30)):
        yield Case(f"cut to {size}", one_file("m.gguf", source[:size]), ("m.gguf",))
    while True:
        position = rng.randrange(header) if rng.random() < 0.9 else rng.randrange(len(source))
        bit = rng.randrange(8)
        yield Case(f"flip bit {bit} of byte {position}", one_file("m.gguf", flipped(source, position, bit)), ("m.gguf",), may_load=True)


def gguf():
    yield from gguf_hostile()
    yield from gguf_random(random.Random("gguf"))


# ---- GGUF in parts -------------------------------------------------------------------------------------------------


def gguf_key(name, kind, value):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value


@functools.lru_cache
def split_gguf(count):
    """The parts of llama_gqa-Q2_K.gguf as llama.cpp's splitter makes them: metadata in the first, tensors in all."""
    source = (DATA / "gguf" / "llama_gqa-Q2_K.gguf").read_bytes()
    g = Gguf(source)
    rows = list(g.tensors.items())
    offsets = [struct.unpack_from("<Q", source, shape + 8 * dims + 4)[0] for _, (_, shape, dims) in rows]
    ends = offsets[1:] + [len(source) - g.data_start]
    assert offsets == sorted(offsets)
    num_keys = struct.unpack_from("<Q", source, 16)[0]
    parts = []
    for number in range(count):
        mine = range(number * len(rows) // count, (number + 1) * len(rows) // count)
        keys = gguf_key("split.no", 2, struct.pack("<H", number)) + gguf_key("split.count", 2, struct.pack("<H", count))
        keys += gguf_key("split.tensors.count", 5, struct.pack("<i", len(rows)))
        keys, keys_here = (source[24 : g.keys_end] + keys, num_keys + 3) if number == 0 else (keys, 3)
        table, data = b"", b""
        for i in mine:
            start, shape, dims = rows[i][1]
            table += source[start : shape + 8 * dims + 4] + struct.pack("<Q", len(data))
            data += source[g.data_start + offsets[i] : g.data_start + ends[i]]
            data += bytes(-len(data) % 32)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(mine), keys_here) + keys + table
        parts.append(head + bytes(-len(head) % 32) + data)
    return parts


def part_name(number, count=3):
    return f"m-{number:05}-of-{count:05}.gguf"


def split_case(name, change, words="", files=(), may_load=False, start=1):
    """`change` gets {file name: bytes, None (missing) or another file name (a link)}."""

    def write(folder):
        content = {part_name(i + 1): data for i, data in enumerate(split_gguf(3))}
        change(content)
        for file, data in content.items():
            if isinstance(data, str):
                (folder / file).symlink_to(data)
            elif data is not None:
                (folder / file).write_bytes(data)
        return folder / part_name(start)

    return Case(name, write, files or tuple(part_name(i) for i in (1, 2, 3)), words, may_load)


def put(**changes):
    def change(content):
        for number, value in changes.items():
            content[part_name(int(number[1:]))] = value

    return change


def split_hostile():
    parts = split_gguf(3)
    keys = [Gguf(part).keys for part in parts]
    one, two, three = (part_name(i) for i in (1, 2, 3))
    yield split_case("part 2 is missing", put(p2=None), "is missing", (two,))
    yield split_case("part 3 is missing", put(p3=None), "is missing", (three,))
    yield split_case("only part 1", put(p2=None, p3=None), "is missing", (two,))
    yield split_case("starts from part 2", put(), "part 2 of 3", (two,), start=2)
    yield split_case("starts from part 3", put(), "part 3 of 3", (three,), start=3)
    yield split_case("part 2 is a link to part 1", put(p2=one), "expected part 2 of 3", (two,))
    yield split_case("part 3 is a link to part 2", put(p3=two), "expected part 3 of 3", (three,))
    yield split_case("part 2 is a link to itself", put(p2=two), "is missing", (two,))
    yield split_case("parts 2 and 3 link to each other", put(p2=three, p3=two), "is missing", (two,))
    yield split_case("part 1 is a link to itself", put(p1=one), "", (one,))
    yield split_case("parts 2 and 3 changed places", put(p2=parts[2], p3=parts[1]), "expected part 2 of 3", (two,))
    yield split_case("part 2 twice", put(p3=parts[1]), "expected part 3 of 3", (three,))
    yield split_case("joined with cat", put(p1=b"".join(parts)), "joined with cat", (one,))
    yield split_case("part 2 is empty", put(p2=b""), "magic", (two,))
    yield split_case("part 2 is text", put(p2=b"<html>404 not found</html>"), "not a GGUF file", (two,))
    yield split_case("part 2 is big-endian", put(p2=edited(parts[1], 4, struct.pack(">I", 3))), "big-endian", (two,))
    yield split_case("part 2 has no split keys", put(p2=(DATA / "gguf" / "llama_gqa-Q4_0.gguf").read_bytes()), "expected part 2", (two,))
    for key in ("split.no", "split.count"):
        for number in range(3):
            for bad in (0, 1, 2, 4, 9999, 65535):
                value = keys[number][key][2]
                if struct.unpack_from("<H", parts[number], value)[0] == bad:
                    continue
                if (key, number) == ("split.count", 0) and bad < 2:
                    continue  # then it is a whole model that lacks tensors: below
                damaged = edited(parts[number], value, struct.pack("<H", bad))
                yield split_case(f"{key} of part {number + 1} is {bad}", put(**{f"p{number + 1}": damaged}))
    for bad in (0, 1):
        damaged = edited(parts[0], keys[0]["split.count"][2], struct.pack("<H", bad))
        yield split_case(f"part 1 says it is one of {bad}", put(p1=damaged), "is missing", (one,))
    for bad in (-1, 0, 5, 1 << 30):
        damaged = edited(parts[0], keys[0]["split.tensors.count"][2], struct.pack("<i", bad))
        yield split_case(f"{bad} tensors in all", put(p1=damaged), "tensors", (one,))
    for number, part in enumerate(parts, 1):
        g = Gguf(part)
        _, shape, dims = next(iter(g.tensors.values()))
        for name, damaged in {
            "huge dimension": edited(part, shape, struct.pack("<Q", 1 << 60)),
            "tensor count 2^60": edited(part, 8, struct.pack("<Q", 1 << 60)),
            "metadata count 2^60": edited(part, 16, struct.pack("<Q", 1 << 60)),
            "offset 2^50": edited(part, shape + 8 * dims + 4, struct.pack("<Q", 1 << 50)),
            "type 99": edited(part, shape + 8 * dims, struct.pack("<I", 99)),
        }.items():
            yield split_case(f"{name} in part {number}", put(**{f"p{number}": damaged}), "", (part_name(number),))


def split_gguf_cases():
    yield from split_hostile()
    rng = random.Random("split")
    parts = split_gguf(3)
    for _ in range(30):
        number = rng.randrange(3)
        size = rng.randrange(4, len(parts[number]) - 64)
        damaged = put(**{f"p{number + 1}": parts[number][:size]})
        yield split_case(f"part {number + 1} cut to {size}", damaged, "", (part_name(number + 1),))
    while True:
        number = rng.randrange(3)
        position, bit = rng.randrange(Gguf(parts[number]).header_end), rng.randrange(8)
        damaged = put(**{f"p{number + 1}": flipped(parts[number], position, bit)})
        yield split_case(f"flip bit {bit} of byte {position} of part {number + 1}", damaged, may_load=True)


# ---- folders -------------------------------------------------------------------------------------------------------


def folder_case(name, model, changes, words="", files=(), may_load=False):
    """A copy of a golden folder with `changes` {file: bytes, or None to leave it out, or a str to link to}."""

    def write(folder):
        for file in (DATA / "models" / model).iterdir():
            if not file.name.startswith("ref") and file.name not in changes:
                shutil.copyfile(file, folder / file.name)
        for file, data in changes.items():
            if isinstance(data, str):
                (folder / file).symlink_to(data)
            elif data is not None:
                (folder / file).write_bytes(data)
        return folder

    return Case(name, write, files or tuple(changes), words, may_load)


def safetensors_file(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors():
    file = "model.safetensors"
    source = (DATA / "models" / "qwen3" / file).read_bytes()
    (size,) = struct.unpack_from("<Q", source)
    text, data = source[8 : 8 + size], source[8 + size :]
    header = json.loads(text)
    names = [n for n in header if n != "__metadata__"]

    def case(name, damaged, words=""):
        return folder_case(name, "qwen3", {file: damaged}, words)

    yield case("empty", b"", "")
    yield case("zeros", bytes(len(source)))
    yield case("header [", safetensors_file(b"[" * 1000, data))
    yield case("header of 100k brackets", safetensors_file(b'{"a":' + b"[" * 100_000, data))
    yield case("header is a list", safetensors_file([], data), "object")
    for bad in (0, 1, size - 1, size + 1, len(source), 100_000_001, 1 << 40, 1 << 62, (1 << 63), (1 << 64) - 1):
        yield case(f"header of {bad} bytes", edited(source, 0, struct.pack("<Q", bad)))
    yield case("bytes behind", source + b"12345678", "8 bytes behind")
    yield case("not there", None)
    yield case("duplicate", safetensors_file(text[:-1].rstrip(b" }") + b"}," + json.dumps(names[0]).encode() + b":" + json.dumps(header[names[0]]).encode() + b"}", data), "")
    rng = random.Random("safetensors")
    values = {
        "dtype": ["Q9_9", "", 7, None, [], "F8_E4M3", "I32", "bf16", "F64", True],
        "shape": [[], [0], [-1, 4], [1 << 62, 4], [1 << 32, 1 << 32], "4", None, [1.5], [[4]], [10**30], {}, [1] * 100],
        "data_offsets": [[0], [5, 3], [-8, 0], [0, 1 << 62], [1 << 63, 1 << 63], "0,4", None, [0, 4, 8], [0.5, 4], {}],
    }
    for key, bads in values.items():
        for bad in bads:
            name = rng.choice(names)
            yield case(f"{key} {json.dumps(bad)[:30]}", safetensors_file({**header, name: {**header[name], key: bad}}, data), name)
        name = rng.choice(names)
        without = {k: v for k, v in header[name].items() if k != key}
        yield case(f"no {key}", safetensors_file({**header, name: without}, data), name)
    for name in rng.sample(names, 10):
        yield case(f"without {name}", safetensors_file({k: v for k, v in header.items() if k != name}, data))
        yield case(f"renamed {name}", safetensors_file({(k + "x" if k == name else k): v for k, v in header.items()}, data), "missing")
        turned = {**header[name], "shape": [header[name]["shape"][-1] * 2] + header[name]["shape"][:-1]}
        yield case(f"other shape of {name}", safetensors_file({**header, name: turned}, data), name)
    for bad in sorted(rng.sample(range(8, len(source) - 2), 30)):
        yield case(f"cut to {bad}", source[:bad])
    while True:
        position = rng.randrange(size + 8) if rng.random() < 0.9 else rng.randrange(len(source))
        bit = rng.randrange(8)
        yield folder_case(f"flip bit {bit} of byte {position}", "qwen3", {file: flipped(source, position, bit)}, may_load=True)


WRONG_TYPES = ["text", [], {}, True, [7], {"a": 1}]
NUMBERS = [-1, 0, 1, 7, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**64, 1e308, 0.5, -0.5]


def config():
    file = "config.json"
    source = (DATA / "models" / "qwen3" / file).read_bytes()
    values = json.loads(source)

    def case(name, damaged, words="", may_load=False):
        # A value that fits no tensor is noticed at the tensor.
        return folder_case(name, "qwen3", {file: damaged}, words, (file, "model.safetensors"), may_load)

    def put(**changes):
        return json.dumps({**values, **changes}).encode()

    yield case("empty", b"")
    yield case("a list", b"[]", "object")
    yield case("text", b"<html>404</html>")
    yield case("100k brackets", b"[" * 100_000)
    yield case("100k objects", b'{"a":' * 100_000)
    yield case("broken UTF-8", source.replace(b"qwen3", b"qw\xff\xfe3"))
    yield case("not there", None)
    yield case("huge number", b'{"hidden_size": ' + b"9" * 100_000 + b"}")
    for name, bad in {"none": [], "unknown": ["MambaForCausalLM"], "number": [7], "text": 3, "long": ["x" * 100_000],
                      "control": ["a\x1b[2J\n"]}.items():
        yield case(f"architectures {name}", put(architectures=bad), "rchitecture")
    fields = ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
              "intermediate_size", "vocab_size", "max_position_embeddings", "rms_norm_eps", "rope_theta"]
    for field in fields:
        assert field in values, field
        for bad in WRONG_TYPES:
            yield case(f"{field} {json.dumps(bad)}", put(**{field: bad}), field)
    for field in fields:
        for bad in NUMBERS:
            yield case(f"{field} {bad}", put(**{field: bad}), may_load=True)
    for bad in ("text", 7, [], {"rope_type": "dynamic"}, {"rope_type": 7}, {"factor": 2}, {"rope_type": "yarn"},
                {"rope_type": "yarn", "factor": -1}, {"rope_type": "yarn", "factor": 1e300},
                {"rope_type": "linear", "factor": 0}, {"rope_type": "llama3", "factor": 8}):
        yield case(f"rope_scaling {json.dumps(bad)}", put(rope_scaling=bad), may_load=bad == {"factor": 2} or bad == {"rope_type": "yarn", "factor": 1e300})
    for field, bad in {"hidden_act": "swish9", "tie_word_embeddings": "yes", "eos_token_id": "x"}.items():
        yield case(f"{field} {bad}", put(**{field: bad}), field)


def config_cases():
    yield from config()
    source = (DATA / "models" / "qwen3" / "config.json").read_bytes()
    rng = random.Random("config")
    files = ("config.json", "model.safetensors")
    last = source.rindex(b"}")
    while True:
        size, position, bit = rng.randrange(last), rng.randrange(last), rng.randrange(8)
        if rng.random() < 0.3:
            yield folder_case(f"cut to {size}", "qwen3", {"config.json": source[:size]}, "", files)
        yield folder_case(f"flip bit {bit} of byte {position}", "qwen3", {"config.json": flipped(source, position, bit)}, "", files, True)


def tokenizer():
    file = "tokenizer.json"
    source = (DATA / "models" / "qwen3" / file).read_bytes()
    values = json.loads(source)
    model = values["model"]

    def case(name, damaged, words="", may_load=False):
        return folder_case(name, "qwen3", {file: damaged}, words, (file, "tokenizer"), may_load)

    def put(**changes):
        return json.dumps({**values, **changes}).encode()

    def put_model(**changes):
        return put(model={**model, **changes})

    yield case("empty", b"")
    yield case("empty object", b"{}")
    yield case("a list", b"[]")
    yield case("text", b"<html>404</html>")
    yield case("100k brackets", b"[" * 100_000)
    yield case("100k objects", b'{"a":' * 100_000)
    yield case("nested 100k deep inside", put(extra=0)[:-1] + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    for name in ("model", "added_tokens", "decoder"):
        for bad in (None, 7, "text", [7], {"type": "Nothing"}):
            yield case(f"{name} {json.dumps(bad)}", put(**{name: bad}))
    for name in ("pre_tokenizer", "normalizer", "post_processor"):
        for bad in (7, "text", [7], {"type": "Nothing"}, {"type": "Sequence"}):
            yield case(f"{name} {json.dumps(bad)}", put(**{name: bad}))
    for pattern in ("(", "[a", "(?<x", "a{1,99999999}", "(" * 10_000, "\\p{Nothing}", "(?:" * 5_000 + ")" * 5_000, "a{999}{999}{999}"):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        yield case(f"pattern {pattern[:20]}", put(pre_tokenizer=split), may_load=pattern.startswith("a{999}"))
    for bad in ({"a": -1}, {"a": 1 << 40}, {"a": 1.5}, {"a": "b"}, [], None, 7, {}, {"a": 4294967295}, {"a": 99_999_999}):
        yield case(f"vocab {json.dumps(bad)}", put_model(vocab=bad))
    first = next(iter(model["vocab"]))
    for bad in (-1, 1 << 33, 1.5, "0", 4294967295, 50_000_000):
        yield case(f"one id {bad}", put_model(vocab={**model["vocab"], first: bad}))
    for bad in (["a"], [["a"]], [["a", "b", "c"]], [7], "a b", 7, [["no such", "token"]], ["no_such token"], [None]):
        yield case(f"merges {json.dumps(bad)}", put_model(merges=bad))
    token = values["added_tokens"][0]
    for bad in ({"id": -1}, {"id": 1 << 40}, {"id": "x"}, {"content": 7}, {"special": "x"}, {"id": 4_000_000_000}):
        yield case(f"added token {json.dumps(bad)}", put(added_tokens=[{**token, **bad}]), may_load="id" in bad and bad["id"] == 4_000_000_000)
    for key in ("id", "content"):
        yield case(f"added token without {key}", put(added_tokens=[{k: v for k, v in token.items() if k != key}]))
    yield case("unigram without pieces", put_model(type="Unigram"))
    yield case("unknown model", put_model(type="Unknown"))
    yield case("broken UTF-8", source.replace(b'"type"', b'"ty\xffe"'))


def tokenizer_cases():
    yield from tokenizer()
    source = (DATA / "models" / "qwen3" / "tokenizer.json").read_bytes()
    rng = random.Random("tokenizer")
    last = source.rindex(b"}")
    while True:
        size, position, bit = rng.randrange(last), rng.randrange(last), rng.randrange(8)
        if rng.random() < 0.3:
            yield folder_case(f"cut to {size}", "qwen3", {"tokenizer.json": source[:size]}, "", ("tokenizer.json",))
        yield folder_case(f"flip bit {bit} of byte {position}", "qwen3", {"tokenizer.json": flipped(source, position, bit)}, "",
                          ("tokenizer.json", "tokenizer"), True)


def index():
    file, shard1, shard2 = "model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    folder = DATA / "models" / "llama_gqa"
    source = (folder / file).read_bytes()
    weight_map = json.loads(source)["weight_map"]
    names = list(weight_map)
    first, second = (folder / shard1).read_bytes(), (folder / shard2).read_bytes()

    def case(name, change, words="", files=(file, shard1, shard2), may_load=False):
        return folder_case(name, "llama_gqa", change, words, files, may_load)

    def mapped(**changes):
        return {file: json.dumps({"weight_map": {**weight_map, **changes}}).encode()}

    yield case("empty", {file: b""})
    yield case("a list", {file: b"[]"}, "object")
    yield case("100k brackets", {file: b"[" * 100_000})
    for bad in (None, [], 7, "x", {}):
        yield case(f"weight_map {json.dumps(bad)}", {file: json.dumps({"weight_map": bad}).encode()}, "",
                   (file, "peng"))
    yield case("no weight_map", {file: b"{}"}, "weight_map")
    rng = random.Random("index")
    for bad in ("../" + shard1, "/etc/passwd", "..\\" + shard1, "a/" + shard1, "", ".", "..", file, "x.bin", 7, None, [],
                shard1 + "\0", "nothing.safetensors", "." + shard1, {"a": 1}, "x" * 5000 + ".safetensors", "\x1b[2J.safetensors"):
        yield case(f"a shard called {json.dumps(bad)[:30]}", mapped(**{rng.choice(names): bad}), "", (file, "shards are missing"))
    for name in rng.sample(names, 20):
        other = shard2 if weight_map[name] == shard1 else shard1
        yield case(f"{name} in the other shard", mapped(**{name: other}), name, (other,))
    for name in rng.sample(names, 20):
        without = {file: json.dumps({"weight_map": {k: v for k, v in weight_map.items() if k != name}}).encode()}
        # An output head that no index names is the same as none: the config does not tie, so it is missing.
        yield case(f"{name} is not listed", without, name, ("",))
    for i in range(10):
        yield case(f"tensor {i} that no shard has", mapped(**{f"model.layers.{i}.nothing": rng.choice((shard1, shard2))}), f"model.layers.{i}.nothing")
    missing = "1 of 2 shards are missing"
    yield case("shard 1 is missing", {shard1: None}, missing)
    yield case("shard 2 is missing", {shard2: None}, missing)
    yield case("both are missing", {shard1: None, shard2: None}, "2 of 2 shards are missing")
    yield case("shard 2 is a link to itself", {shard2: shard2}, missing)
    yield case("the shards are links to each other", {shard1: shard2, shard2: shard1}, "2 of 2 shards are missing")
    yield case("shard 2 is a link to shard 1", {shard2: shard1}, "has no tensor")
    yield case("shard 1 is a link to the index", {shard1: file}, "", (shard1,))
    yield case("the index is a link to itself", {file: file}, "", ("",))
    yield case("the shards changed places", {shard1: second, shard2: first}, "has no tensor")
    yield case("shard 2 is empty", {shard2: b""}, "", (shard2,))
    yield case("shard 2 is text", {shard2: b"<html>404 not found</html>"}, "", (shard2,))
    for _ in range(25):
        shard, data = rng.choice(((shard1, first), (shard2, second)))
        size = rng.randrange(8, len(data) - 2)
        yield case(f"{shard} cut to {size}", {shard: data[:size]}, "", (shard,))
    last = source.rindex(b"}")
    while True:
        size, position, bit = rng.randrange(last), rng.randrange(last), rng.randrange(8)
        if rng.random() < 0.3:
            yield case(f"cut to {size}", {file: source[:size]}, "", (file,))
        yield case(f"flip bit {bit} of byte {position}", {file: flipped(source, position, bit)}, "",
                   (file, shard1, shard2, "shards are missing", "tensor"), True)


KINDS = {"gguf": gguf, "split": split_gguf_cases, "safetensors": safetensors, "config": config_cases, "tokenizer": tokenizer_cases, "index": index}


def cases(kind):
    """The first CASES_PER_KIND different cases of a kind; hostile ones come first."""
    seen = set()
    for case in KINDS[kind]():
        if case.name not in seen:
            seen.add(case.name)
            yield case
        if len(seen) == CASES_PER_KIND:
            return
