# SPDX-License-Identifier: Apache-2.0
"""The command line as people use it: exit codes, one-line refusals, replies, a terminal."""
import json
import os
import pathlib
import pty
import select
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
    assert dict(listing["metadata"])["general.architecture"] == '"llama"'


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


def test_chat_keeps_the_history_until_it_is_cleared(peng, default_model):
    def replies(*lines):
        return peng("chat", default_model, "--temperature", 0, "--max-tokens", 16, stdin="\n".join(lines) + "\n")

    story, rain = "Tell me a story about a fox.", "Why does it rain?"
    alone = replies(rain)
    assert replies(story, "/clear", rain) == replies(story) + alone
    assert replies(story, rain) != replies(story) + alone
