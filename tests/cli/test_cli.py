# SPDX-License-Identifier: Apache-2.0
"""The command line as people use it: exit codes, one-line refusals, replies, a terminal."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import socket
import subprocess
import time

import pytest

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
TINY = DATA / "models" / "llama_gqa"


@pytest.fixture(scope="module")
def peng(peng_binary):
    """peng("complete", MODEL, ..., code=0, stdin="") -> standard output; the exit code is checked."""

    # PENG_ variables are settings of peng: the tests' own would only be warned about.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENG_")}

    def run(*arguments, code=0, stdin="", env=None):
        done = subprocess.run([peng_binary, *map(str, arguments)], input=stdin.encode(), capture_output=True, timeout=300,
                              env={**inherited, **(env or {})})
        assert done.returncode == code, done.stderr.decode()
        run.errors = done.stderr.decode()
        return done.stdout.decode()

    return run


def one_line(text):
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    return lines[0]


def test_version_names_the_instruction_sets(peng):
    lines = peng("version").splitlines()
    assert lines[0].startswith("peng ")
    assert lines[2].startswith("instruction sets: portable")
    assert peng("--version").splitlines() == lines


@pytest.mark.parametrize("arguments, words", [
    (["serv"], "serv: no such command"),
    ([], "usage: peng COMMAND"),
])
def test_unknown_commands_are_bad_usage(peng, arguments, words):
    peng(*arguments, code=2)
    assert words in peng.errors


@pytest.mark.parametrize("arguments, words", [
    (["complete", TINY, "-p", "x", "--max-modellen", "9"], "did you mean --max-model-len?"),
    (["complete", "--max-token", "2", TINY], "--max-token: is no flag of peng complete; did you mean --max-tokens?"),
    (["pull", "--revison", "x", "o/m"], "--revison: is no flag of peng pull; did you mean --revision?"),
    (["inspect", "--jsn", TINY], "--jsn: is no flag of peng inspect; did you mean --json?"),
    (["chat", "--port"], "--port: is a flag of peng serve that has no effect on peng chat"),
    (["complete", TINY, "-p", "x", "--host", "::"], "--host: is a flag of peng serve"),
    (["complete", TINY, "-p", "x", "--chat-template", "x"], "--chat-template: is a flag of peng serve that has no effect"),
    (["bench", "prefill", TINY, "--max-num-seqs", "2"], "--max-num-seqs: is a flag of peng serve that has no effect"),
    (["serve", "-tp", "2", TINY], "-tp: is a flag of vLLM that peng does not have; one process uses every core"),
    (["serve", TINY, "--load-format", "auto"], "--load-format: is a flag of vLLM that peng does not have; peng sees"),
    (["serve", TINY, "--enforce_eager"], "peng compiles and captures nothing"),
    (["serve", TINY, "--port"], "--port: needs a value; write --port N"),
    (["serve", TINY, "--port", "--host", "::"], "--port: needs a value before --host"),
    (["serve", TINY, "--port", "1", "--port", "2"], "--port: is given twice"),
    (["serve", "--served-model-name", "a", TINY], "--served-model-name takes every word up to the next flag"),
    (["serve", TINY, "other"], "one word too many"),
    (["complete", TINY, "-p", "x", "--max-tokens", "x"], '--max-tokens: "x" is no integer; give 0 to 1073741824'),
    (["complete", TINY, "-p", "x", "--temperature", "warm"], '--temperature: "warm" is no number'),
    (["complete", TINY, "-p", "x", "--seed", "-2"], '--seed: "-2" is out of range; give -1 to'),
    (["complete", TINY, "-p", "x", "--kv-cache-dtype", "int8"], "use auto, bfloat16, float16, float32"),
    (["bench", "decode", TINY, "--batch-size", "0"], '--batch-size: "0" is out of range; give 1 to 1000000'),
    (["bench"], "peng bench: needs WHAT"),
    (["perplexity", TINY], "peng perplexity: needs --file FILE"),
    (["perplexity", TINY, "--file", "/nope"], "--file: /nope: cannot open"),
    (["complete", TINY, "-p", "x", "--config", "/nope.yaml"], '--config: "/nope.yaml" cannot be read'),
    (["complete", TINY, "-p", "x", "--config", TINY / "config.json"], "is the configuration of a model"),
    (["version", "twice"], "one word too many"),
    (["pull", "--import", "/no.tar"], "--import /no.tar: cannot be read"),
    (["pull", "foo"], "foo: names no owner; write ORG/NAME"),
    (["pull", "o/m", "--hub", "x"], '--hub: "x" is no hub; use huggingface or modelscope'),
    (["pull", "o/m", "--retries", "101"], '--retries: "101" is out of range; give 0 to 100'),
    (["complete", TINY, "-p", "x", "--max-model-len", "many"], "--max-model-len"),
    (["complete", TINY, "-p", "x", "--dtype", "float7"], "--dtype"),
    (["complete", TINY, "-p", "x", "--max-isa", "avx9"], "--max-isa"),
    (["complete", TINY, "-p", "x", "--temperature", "-3"], "temperature"),
    (["complete", TINY], "--prompt"),
    (["complete", "-p", "x"], "MODEL"),
    (["perplexity", TINY, "--file", DATA / "perplexity" / "text.txt", "--phase", "both"], "--phase"),
    (["perplexity", TINY, "--file", DATA / "perplexity" / "text.txt", "--window", "1"], "--window"),
    (["bench", "swim", TINY], "swim"),
    (["serve", TINY, "--port", "0", "--host", "two\nlines"], "is not an address"),
    (["serve", TINY, "--port", "0", "--api-key", ""], "--api-key: is empty"),
    (["bench", "prefill", TINY, "--input-len", "100000"], "512"),
])
def test_bad_usage_is_one_line_that_names_it(peng, arguments, words):
    peng(*arguments, code=2)
    assert words in one_line(peng.errors)


def test_a_value_may_stand_on_either_side_of_the_model(peng):
    want = peng("complete", TINY, "-p", "x", "--max-tokens", 4, "--temperature", 0)
    for words in (["--max-tokens", 4, "--temperature", 0, "-p", "x", TINY], ["--max-model-len", 64, "--max-tokens=4", TINY, "--temperature=0", "--prompt=x"],
                  ["-p", "x", "--model", TINY, "--max_tokens", 4, "--temperature", 0, "--cpu-threads", 1],
                  ["--max-tokens", 4, "--temperature", 0, "-p", "x", "--stop", "never", "--", TINY]):
        assert peng("complete", *words) == want, words


@pytest.mark.parametrize("command", ["serve", "chat", "complete", "inspect", "perplexity", "bench", "pull", "version"])
def test_help_lists_only_what_the_command_takes(peng, command):
    text = peng(command, "--help")
    assert text.startswith(f"usage: peng {command}") and peng.errors == ""
    assert "=[]" not in text and "... ..." not in text
    flags = set(re.findall(r"^ +(?:[A-Z]+, |-[a-z], )*(--[a-z0-9-]+)", text, re.MULTILINE))
    assert ("--host" in flags) == (command == "serve")
    assert ("--cpu-threads" in flags) == (command not in ("inspect", "pull", "version"))
    assert ("--max-model-len" in flags) == (command in ("serve", "chat", "complete"))
    assert ("--chat-template" in flags) == (command in ("serve", "chat"))


def test_without_a_seed_every_reply_is_another(peng):
    def reply(*seed):
        return peng("complete", TINY, "-p", "x", "--max-tokens", 24, "--temperature", 2, *seed)

    assert len({reply() for _ in range(3)}) > 1
    assert len({reply("--seed", -1) for _ in range(3)}) > 1
    assert reply("--seed", 7) == reply("--sampling-seed", 7)


def test_model_files_that_are_refused(peng, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 40)
    for path in (broken, tmp_path / "missing.gguf", tmp_path):
        peng("complete", path, "-p", "x", code=3)
        assert str(path) in one_line(peng.errors)


def test_inspect(peng):
    text = peng("inspect", TINY)
    assert "model.layers.0.self_attn.q_proj.weight" in text
    listing = json.loads(peng("inspect", DATA / "gguf" / "llama_gqa-Q4_0.gguf", "--json"))
    tensors = {t["name"]: t for t in listing["tensors"]}
    assert tensors["blk.0.attn_q.weight"]["format"] == "Q4_0"
    assert tensors["blk.0.attn_q.weight"]["shape"] == [256, 256]
    metadata = listing["metadata"]
    assert metadata["general.architecture"] == "llama" and metadata["llama.block_count"] == 2
    assert metadata["llama.rope.freq_base"] == 10000.0 and metadata["tokenizer.ggml.add_bos_token"] is True
    assert listing["array_lengths"]["tokenizer.ggml.tokens"] == 512 and metadata["tokenizer.ggml.tokens"][7] == "!"
    folder = json.loads(peng("inspect", TINY, "--json"))
    config = json.loads((TINY / "config.json").read_text())
    assert folder["metadata"] == config and folder["array_lengths"] == {"architectures": 1}


@pytest.mark.parametrize("path, words", [
    ("/tmp", "/tmp: has no config.json; give a folder in Hugging Face's layout"),
    (TINY / "tokenizer.json", "is no model file; name a .gguf"),
    ("/no/such.safetensors", "there is no such file or folder"),
    ("org/none", "in no cache (looked in "),
])
def test_inspect_says_what_is_no_model(peng, path, words, tmp_path):
    peng("inspect", path, code=3, env={"PENG_HOME": str(tmp_path)})
    assert words in one_line(peng.errors)
    if path == "org/none":
        assert peng.errors.rstrip().endswith("; fetch it with peng pull org/none")


@pytest.fixture
def model(tmp_path):
    """A copy of the tiny model to change."""
    return pathlib.Path(shutil.copytree(TINY, tmp_path / "model"))


def edit(path, **values):
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


@pytest.mark.parametrize("field, value, shown", [
    ("top_p", -5, "-5"), ("top_k", 1e300, "1e+300"), ("max_new_tokens", 1e300, "1e+300"), ("max_new_tokens", 0, "0"),
    ("temperature", "x", '"x"'), ("min_p", 2, "2"), ("repetition_penalty", 0, "0"),
])
def test_defaults_of_the_model_are_checked_when_it_is_loaded(peng, model, field, value, shown):
    edit(model / "generation_config.json", **{field: value})
    peng("complete", model, "-p", "x", "--max-tokens", 1, code=3)
    line = one_line(peng.errors)
    assert f'{model}/generation_config.json: "{field}" is {shown}, must be ' in line and "--generation-config vllm" in line
    peng("complete", model, "-p", "x", "--max-tokens", 1, "--generation-config", "vllm")
    assert peng.errors == ""


def test_ends_of_replies_outside_the_vocabulary_are_warned_about(peng, model):
    edit(model / "config.json", eos_token_id=[1, 99999])
    peng("complete", model, "-p", "x", "--max-tokens", 1)
    assert '"eos_token_id" has 99999, but the vocabulary has 512 tokens' in one_line(peng.errors)


def test_a_broken_template_names_its_file(peng, model):
    edit(model / "tokenizer_config.json", chat_template="{% if %}")
    peng("chat", model, "-q", "x", code=3)
    assert one_line(peng.errors).startswith(f"peng: {model}/tokenizer_config.json: the chat template is refused: ")
    (model / "chat_template.jinja").write_text("{{")
    peng("chat", model, "-q", "x", code=3)
    assert one_line(peng.errors).startswith(f"peng: {model}/chat_template.jinja: the chat template is refused: ")


def test_settings_are_judged_before_the_port_is_taken(peng):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        for words, code, line in (["/no/model"], 3, "/no/model: there is no such file or folder"), \
                                 ([TINY, "--max-isa", "avx9"], 2, "--max-isa"), \
                                 ([TINY, "--chat-template", "none"], 2, "--chat-template none"), \
                                 ([TINY, "--revision", "x"], 2, "--revision"), ([], 2, "MODEL"), \
                                 ([TINY], 2, "in use"):
            peng("serve", *words, "--port", port, code=code)
            assert line in peng.errors.strip().splitlines()[-1], peng.errors
            assert "listening" not in peng.errors


def test_a_kv_cache_that_holds_no_context_names_its_flag(peng):
    peng("complete", TINY, "-p", "x", "--kv-cache-memory-bytes", 1000, code=2)
    line = one_line(peng.errors)
    assert line.startswith("peng: --kv-cache-memory-bytes: 1000 B do not hold") and "use --kv-cache-memory-bytes 1M or more" in line
    peng("complete", TINY, "-p", "x", "--max-tokens", 1, "--kv-cache-memory-bytes", "1M")


def test_complete_is_greedy_and_stops(peng, default_model):
    text = peng("complete", default_model, "-p", "The capital of France is", "--max-tokens", 8, "--temperature", 0)
    assert text.startswith(" Paris.")
    assert peng("complete", default_model, "--max-tokens", 8, "--temperature", 0, stdin="The capital of France is") == text
    assert peng("complete", default_model, "-p", "The capital of France is", "--max-tokens", 8, "--temperature", 0,
                "--stop", "ris") == " Pa\n"
    assert peng.errors == ""


def test_settings_come_from_flags_environment_and_file(peng, tmp_path):
    config = tmp_path / "peng.yaml"
    config.write_text("dtype: float7\n")
    peng("complete", TINY, "-p", "x", "--config", config, code=2)
    assert "peng.yaml: dtype" in one_line(peng.errors)
    # The environment wins over the file, a flag over both; '_' may stand for '-'.
    peng("complete", TINY, "-p", "x", "--config", config, "--dtype=float32", "--max_tokens=1", env={"PENG_DTYPE": "float8"}, code=2)
    assert "dtype" in one_line(peng.errors)
    config.write_text("dtype: auto\n")
    peng("complete", TINY, "-p", "x", "--config", config, "--dtype=float32", "--max_tokens=1")


def test_perplexity_of_the_default_model(peng, default_model):
    """The float32 reference is 46.861 (Hugging Face transformers); both phases stay within 0.5 % of it."""
    reference = 46.861359637136694
    for phase in ("prompt", "generated"):
        result = json.loads(peng("perplexity", default_model, "--file", DATA / "perplexity" / "text.txt", "--phase", phase, "--json"))
        assert result["windows"] == 9 and result["tokens"] == 9 * 511
        assert result["perplexity"] < reference * 1.005
        assert result["perplexity"] > reference * 0.98
        assert peng.errors == ""


def test_perplexity_tells_how_far_it_is(peng_binary, peng):
    command = ["perplexity", TINY, "--file", DATA / "perplexity" / "text.txt", "--window", 64]
    result = json.loads(peng(*command, "--verbose", "--json"))
    lines = peng.errors.splitlines()
    assert len(lines) == result["windows"]
    assert lines[0].startswith(f"window 1 of {result['windows']}: perplexity ")
    assert lines[-1] == f"window {result['windows']} of {result['windows']}: perplexity {result['perplexity']:.4f} so far"
    terminal = Terminal([str(peng_binary), *map(str, command)])
    terminal.wait_for(b"\rwindow 1 of ")
    assert terminal.exit_code() == 0


def test_bench_prints_every_sample(peng):
    for what in ("prefill", "decode"):
        result = json.loads(peng("bench", what, TINY, "--input-len", 33, "--output-len", 4, "--num-iters", 3, "--json"))
        assert len(result["tokens_per_second"]) == 3 and min(result["tokens_per_second"]) > 0


class Terminal:
    """peng on a pseudo terminal."""

    def __init__(self, command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", LANG="C.UTF-8")
            os.execv(command[0], command)
        self.output = b""

    def send(self, data):
        os.write(self.fd, data)

    def wait_for(self, words, seconds=60):
        deadline = time.monotonic() + seconds
        while words not in self.output:
            left = deadline - time.monotonic()
            assert left > 0, self.output.decode(errors="replace")
            if select.select([self.fd], [], [], left)[0]:
                self.output += os.read(self.fd, 65536)
        seen, self.output = self.output.split(words, 1)
        return seen

    def exit_code(self):
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:  # the other end is closed
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_chat_in_a_terminal(peng_binary, default_model):
    chat = Terminal([str(peng_binary), "chat", str(default_model), "--temperature", "0", "--max-tokens", "4000", "--stop", "never this"])
    chat.wait_for(b"> ")
    # A reply that is stopped ends, the program does not.
    chat.send("Tell me a very long story about a dragon, with many chapters.\n".encode())
    chat.wait_for(b"dragon")  # the question's own echo
    chat.wait_for(b" the ")
    chat.send(b"\x03")
    chat.wait_for(b"[stopped]")
    chat.wait_for(b"> ")
    # Wide characters: what is rubbed out is a whole character, whatever its bytes and columns.
    chat.send("/cl鹏".encode())
    chat.send(b"\x7f")
    chat.send(b"ear\n")
    chat.wait_for(b"> ")
    # Ctrl-C at the prompt drops the line: the question that follows is not the half one.
    chat.send(b"half a quest")
    chat.wait_for(b"quest")
    chat.send(b"\x03")
    chat.send(b"/quit\n")
    assert chat.exit_code() == 0


def test_chat_explains_its_commands(peng, default_model):
    peng("chat", default_model, stdin="/help\n/claer\n/quit\n")
    lines = peng.errors.splitlines()
    assert len(lines) == 3 and lines[0] == lines[2] and lines[0].startswith("/clear forgets")
    assert lines[1] == "peng: /claer: no such command"


def test_chat_keeps_the_history_until_it_is_cleared(peng, default_model):
    def replies(*lines):
        return peng("chat", default_model, "--temperature", 0, "--max-tokens", 16, stdin="\n".join(lines) + "\n")

    story, rain = "Tell me a story about a fox.", "Why does it rain?"
    alone = replies(rain)
    assert replies(story, "/clear", rain) == replies(story) + alone
    assert replies(story, rain) != replies(story) + alone
