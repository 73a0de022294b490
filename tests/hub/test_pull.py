# SPDX-License-Identifier: Apache-2.0
"""`peng pull` against a fake hub: both protocols, cut connections, damage, refusals, proxies, certificates."""
import http.server
import json
import os
import pty
import resource
import select
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from .conftest import REPO, noise, one_line
from .fake_hub import FakeHub, body, hang, redirect, status

BIG = "deep-org/Big-GGUF"
HUBS = ["huggingface", "modelscope"]


def last_line(text):
    return text.strip().splitlines()[-1]


@pytest.fixture
def big(hub):
    """A repository with one GGUF file of 3 MB (noise: it is never loaded)."""
    data = noise(3_000_000)
    hub.add(BIG, {"Big-Q4_0.gguf": data, "LICENSE": b"text of a licence", "README.md": b"read me"})
    return data


@pytest.mark.parametrize("source", HUBS)
def test_pulls_what_is_needed_to_serve(peng, hub, source):
    hub.repos[REPO].update({"pytorch_model.bin": noise(5000), "README.md": b"#", "figures/a.png": noise(500), "LICENSE": b"MIT"})
    assert peng("pull", REPO, "--hub", source) == f"{peng.folder()}\n"
    wanted = {p: d for p, d in hub.repos[REPO].items() if p not in ("pytorch_model.bin", "README.md", "figures/a.png")}
    assert peng.files() == wanted
    assert "\r" not in peng.errors and "\x1b" not in peng.errors
    assert "pulled LICENSE (3 bytes)" in peng.errors
    manifest = json.loads((peng.folder() / ".peng" / "manifest.json").read_text())
    assert manifest["repo"] == REPO and manifest["revision"] == ("main" if source == "huggingface" else "master")
    assert manifest["commit"] == (hub.commit(REPO) if source == "huggingface" else "")
    assert {f["path"] for f in manifest["files"]} == set(wanted)
    # A second pull asks for the list alone.
    hub.seen.clear()
    assert peng("pull", REPO, "--hub", source) == f"{peng.folder()}\n"
    assert "are there already" in peng.errors
    assert not hub.bytes_requests("/resolve/") + hub.bytes_requests("FilePath") + hub.bytes_requests("/blob/")


@pytest.mark.parametrize("source", HUBS)
def test_a_name_that_is_served_is_pulled_and_then_found(peng, hub, source):
    env = {"PENG_HUB": source}
    text = peng("complete", REPO, "-p", "hello", "--max-tokens", 4, "--temperature", 0, "--hub", source)
    hub.close()
    assert peng("complete", REPO, "-p", "hello", "--max-tokens", 4, "--temperature", 0, env={**env, "PENG_OFFLINE": "1"}) == text
    assert json.loads(peng("inspect", REPO, "--json"))["path"] == str(peng.folder())


def test_tags_choose_a_gguf(peng, hub):
    parts = {f"M-Q8_0-0000{i}-of-00002.gguf": noise(3000, i) for i in (1, 2)}
    hub.add("o/m", {"M-Q4_0.gguf": noise(2000), "M-Q4_K_M.gguf": noise(2500), **parts, "LICENSE": b"MIT", "config.json": b"{}"})
    peng("pull", "o/m", code=2)
    assert "Q4_0 (2.0 kB), Q4_K_M (2.5 kB), Q8_0 (6.0 kB)" in one_line(peng.errors)
    assert peng("pull", "o/m:q4_0") == f"{peng.folder('o/m')}/M-Q4_0.gguf\n"
    assert set(peng.files("o/m")) == {"M-Q4_0.gguf", "LICENSE"}
    assert peng("pull", "o/m:Q8_0") == f"{peng.folder('o/m')}/M-Q8_0-00001-of-00002.gguf\n"
    assert set(peng.files("o/m")) == {"M-Q4_0.gguf", "LICENSE", *parts}


def test_include_and_exclude(peng, hub):
    hub.repos[REPO]["docs/a.md"] = b"a"
    peng("pull", REPO, "--include", "*.json", "docs/", "--exclude", "tokenizer*")
    assert set(peng.files()) == {p for p in hub.repos[REPO] if p.endswith((".json", ".md")) and not p.startswith("tokenizer")}
    peng("pull", REPO, "--include", "*.none", code=2)
    assert "--include" in one_line(peng.errors)


def test_revisions(peng, hub):
    hub.branches.append("feature/x")
    peng("pull", REPO, "--revision", "feature/x")
    assert "/revision/feature%2Fx" in "".join(path for _, path, _ in hub.seen)
    peng("pull", REPO, "--revision", hub.commit(REPO))
    peng("pull", REPO, "--revision", "v9", code=2)
    assert "has no revision v9" in one_line(peng.errors)
    peng("pull", REPO, "--revision", "../../x", code=2)
    assert "--revision" in one_line(peng.errors)


def test_an_update_replaces_the_model_at_once(peng, hub, big):
    peng("pull", BIG)
    new = noise(3_100_000, 2)
    hub.add(BIG, {"Big-Q4_0.gguf": new, "LICENSE": b"another"})
    hub.cuts = [1000]
    peng("pull", BIG, "--retries", 0, code=1)
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big  # the old one is still whole
    peng("pull", BIG)
    assert peng.files(BIG) == {"Big-Q4_0.gguf": new, "LICENSE": b"another"}
    hub.add(BIG, {"Other-Q8_0.gguf": new})
    peng("pull", BIG)
    assert set(peng.files(BIG)) == {"Other-Q8_0.gguf"}  # what the hub has no more goes


# ---------------------------------------------------------------------- going on after a cut

@pytest.mark.parametrize("source", HUBS)
def test_a_cut_connection_is_gone_on_with(peng, hub, big, source):
    hub.cuts = [1_200_000, 700_000]
    peng("pull", BIG, "--hub", source)
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big
    ranges = [h.get("Range") for h in hub.bytes_requests("/blob/")]
    assert ranges == [None, "bytes=1200000-", "bytes=1900000-"]


def test_the_next_run_goes_on(peng, hub, big):
    hub.cuts = [1_200_000]
    peng("pull", BIG, "--retries", 0, code=1)
    assert "run the same command to go on" in last_line(peng.errors)
    assert not (peng.folder(BIG) / "Big-Q4_0.gguf").exists()
    peng("pull", BIG)
    assert "1.2 MB of them here" in peng.errors
    assert [h.get("Range") for h in hub.bytes_requests("/blob/")] == [None, "bytes=1200000-"]
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big and not peng.partials(BIG)


def test_a_server_without_ranges_sends_all_again(peng, hub, big):
    hub.ranges, hub.cuts = False, [1_200_000]
    peng("pull", BIG)
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big


def test_a_file_that_changed_in_between_is_fetched_anew(peng, hub, big):
    """Without checksums, the ETag is what tells."""
    hub.add("o/plain", {"a.gguf": big})
    hub.checksums, hub.cuts = False, [1_200_000]
    changed = noise(3_000_000, 7)
    plain = {"a.gguf": changed}
    url = f"/o/plain/resolve/{hub.commit('o/plain')}/a.gguf"
    hub.faults[f"hub{url}"] = [lambda h: h.send_bytes(big, '"one"'), lambda h: h.send_bytes(plain["a.gguf"], '"two"')]
    peng("pull", "o/plain")
    requests = hub.bytes_requests(url)
    assert [(h.get("Range"), h.get("If-Range")) for h in requests] == [(None, None), ("bytes=1200000-", '"one"')]
    assert peng.files("o/plain") == plain


def test_a_wrong_range_is_not_joined(peng, hub, big):
    hub.cuts = [1_200_000]
    wrong = {"Content-Range": "bytes 5-2999999/3000000", "ETag": '"x"'}
    hub.faults["storage/blob/"] = [None, lambda h: h.reply(206, big[5:], wrong)]
    peng("pull", BIG)
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big


def test_a_partial_that_is_longer_than_the_file(peng, hub, big):
    hub.cuts = [1_200_000]
    peng("pull", BIG, "--retries", 0, code=1)
    partial, = [p for p in peng.partials(BIG) if p.stat().st_size > 1000]
    partial.write_bytes(noise(4_000_000))
    peng("pull", BIG)
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big


# ---------------------------------------------------------------------- checksums

@pytest.mark.parametrize("source", HUBS)
def test_a_damaged_file_is_fetched_once_more(peng, hub, big, source):
    hub.corrupt = 1
    peng("pull", BIG, "--hub", source)
    assert "arrived damaged" in peng.errors
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big


def test_a_file_damaged_twice_is_an_error_and_removed(peng, hub, big):
    hub.corrupt = 2
    peng("pull", BIG, code=1)
    assert "Big-Q4_0.gguf: arrived damaged twice: has SHA-256" in last_line(peng.errors)
    assert [p for p in peng.partials(BIG) if p.stat().st_size > 1000] == []
    assert peng.files(BIG) == {}
    assert len(hub.bytes_requests("/blob/")) == 2


def test_a_damaged_start_is_found_out(peng, hub, big):
    hub.cuts = [1_200_000]
    peng("pull", BIG, "--retries", 0, code=1)
    partial, = [p for p in peng.partials(BIG) if p.stat().st_size > 1000]
    partial.write_bytes(b"x" + partial.read_bytes()[1:])
    peng("pull", BIG)
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big


def test_files_kept_in_git_are_checked_too(peng, hub):
    hub.faults["hub/.*/resolve/.*/config.json"] = [body(b"{}", ETag='"x"')]
    config = hub.repos[REPO]["config.json"]
    hub.repos[REPO]["config.json"] = config = b'{"small": 1}'
    hub.faults["hub/.*/resolve/.*/config.json"] = [body(b'{"small": 2}')]
    peng("pull", REPO, "--include", "config.json")
    assert "git blob SHA-1" in peng.errors
    assert peng.files() == {"config.json": config}


def test_a_file_longer_or_shorter_than_listed_is_refused(peng, hub, big):
    hub.faults["storage/blob/"] = [body(big + b"x")] * 9
    peng("pull", BIG, "--retries", 1, code=1)
    assert "the server has 3000001 bytes, the hub lists 3000000" in last_line(peng.errors)


# ---------------------------------------------------------------------- tokens and redirects

def test_tokens_stay_with_the_hub(peng, hub, big):
    hub.private.add(BIG)
    for env in ({"HF_TOKEN": "hf_right"}, {"HUGGING_FACE_HUB_TOKEN": "hf_right"}, {"HF_HOME": str(peng.home / "hf")},
                {"HF_TOKEN_PATH": str(peng.home / "hf" / "token")}):
        (peng.home / "hf").mkdir(exist_ok=True)
        (peng.home / "hf" / "token").write_text("hf_right\n")
        hub.seen.clear()
        subprocess.run(["rm", "-rf", peng.home / "peng"], check=True)
        peng("pull", BIG, env=env)
        assert {h.get("Authorization") for role, _, h in hub.seen if role == "hub"} == {"Bearer hf_right"}
        assert {h.get("Authorization") for role, _, h in hub.seen if role == "storage"} == {None}
        assert "hf_right" not in peng.errors


def test_modelscope_token(peng, hub, big):
    hub.private.add(BIG)
    hub.token = "ms_right"
    peng("pull", BIG, "--hub", "modelscope", env={"MODELSCOPE_API_TOKEN": "ms_right"})
    assert {h.get("Cookie") for role, _, h in hub.seen if role == "hub"} == {"m_session_id=ms_right"}
    assert {(h.get("Cookie"), h.get("Authorization")) for role, _, h in hub.seen if role == "storage"} == {(None, None)}
    peng("pull", BIG, "--hub", "modelscope", code=2)
    assert "MODELSCOPE_API_TOKEN" in one_line(peng.errors)


@pytest.mark.parametrize("source, variable", [("huggingface", "HF_TOKEN"), ("modelscope", "MODELSCOPE_API_TOKEN")])
def test_refusals_say_what_to_do(peng, hub, big, source, variable):
    peng("pull", "deep-org/None", "--hub", source, code=2)
    assert "deep-org/None: does not exist" in one_line(peng.errors)
    hub.gated.add(BIG)
    for env in ({}, {variable: "wrong"}):
        peng("pull", BIG, "--hub", source, code=2, env=env)
        line = last_line(peng.errors)
        assert variable in line and f"{hub.url}/" in line and BIG in line and "wrong" not in line
        assert ("gated" if source == "huggingface" else "permission") in line
    hub.gated.clear()
    hub.private.add(BIG)
    peng("pull", BIG, "--hub", source, code=2)
    assert variable in one_line(peng.errors)


def test_a_token_that_the_hub_does_not_know(peng, hub):
    hub.faults["hub/api"] = [status(401, X_Error_Message="Invalid credentials in Authorization header")]
    peng("pull", REPO, code=2, env={"HF_TOKEN": "hf_old"})
    assert "does not know the token" in one_line(peng.errors) and "hf_old" not in peng.errors


def test_an_address_of_the_storage_that_ran_out(peng, hub, big):
    hub.faults["storage/blob"] = [status(403)]
    peng("pull", BIG)
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big
    assert len(hub.bytes_requests("/resolve/")) == 3  # the licence, and the file twice


def test_content_that_the_hub_names_otherwise_is_not_taken(peng, hub, big):
    hub.faults["hub/.*/Big-Q4_0.gguf"] = [lambda h: h.reply(302, b"", {"Location": hub.storage_url + "/x", "X-Linked-Etag": f'"{"a" * 64}"'})]
    hub.faults["storage/x"] = [body(big)]
    peng("pull", BIG, code=1)
    assert "the hub now names the content aaaa" in last_line(peng.errors)


def test_checksums_that_only_the_redirect_tells(peng, hub, big):
    hub.checksums, hub.corrupt = False, 2
    peng("pull", BIG, code=1)
    assert "arrived damaged twice: has SHA-256" in last_line(peng.errors)


def test_several_files_at_once(peng, hub):
    hub.add("o/m", {f"model-0000{i}-of-00006.safetensors": noise(5000, i) for i in range(1, 7)})
    hub.gather = 3
    peng("pull", "o/m", "--max-workers", 3)
    assert peng.files("o/m") == hub.repos["o/m"] and hub.most_active == 3


def test_renamed_models_are_followed_and_loops_are_not(peng, hub):
    hub.faults["hub/api/models/old/name/revision/main"] = [redirect(f"/api/models/{REPO}/revision/main")]
    hub.faults["hub/api/models/old/name/tree"] = [redirect(f"/api/models/{REPO}/tree/{hub.commit(REPO)}")]
    hub.faults["hub/old/name/resolve/.*/config.json"] = [redirect(f"/{REPO}/resolve/main/config.json")]
    peng("pull", "old/name", "--include", "config.json")
    assert peng.files("old/name") == {"config.json": hub.repos[REPO]["config.json"]}
    hub.faults["hub/api/models/loop"] = [redirect("/api/models/loop/x/revision/main")] * 50
    peng("pull", "loop/x", "--retries", 0, code=1)
    assert "sends on more than 10 times" in one_line(peng.errors)


def test_redirects_to_files_are_not_followed(peng, hub):
    hub.faults["hub/api/models"] = [redirect("file:///etc/passwd")]
    peng("pull", REPO, "--retries", 0, code=1)
    assert "no http or https address" in one_line(peng.errors)


def test_pages_of_a_listing(peng, hub):
    hub.page_size = 2
    peng("pull", REPO)
    assert peng.files() == hub.repos[REPO]
    # A mirror hands on addresses of the hub behind it: the next page is asked of the mirror, with its token.
    subprocess.run(["rm", "-rf", peng.home / "peng"], check=True)
    hub.link_url = "https://hub.invalid"
    peng("pull", REPO, env={"HF_TOKEN": "hf_right"})
    assert peng.files() == hub.repos[REPO]


# ---------------------------------------------------------------------- passing faults

@pytest.mark.parametrize("code", [429, 500, 503])
def test_passing_faults_are_tried_again(peng, hub, code):
    hub.faults["hub/api/models/.*/revision"] = [status(code, Retry_After=0)] * 2
    hub.faults["hub/api/models/.*/tree"] = [status(code, Retry_After=0)]
    hub.faults["hub/.*/resolve/.*/config.json"] = [status(code, Retry_After=0)] * 2
    peng("pull", REPO)
    assert peng.files() == hub.repos[REPO]
    hub.faults["hub/api/models/.*/revision"] = [status(code, Retry_After=0)] * 9
    peng("pull", REPO, "--retries", 2, code=1)
    assert f"HTTP {code}" in last_line(peng.errors)


def test_a_long_retry_after_is_not_waited_for(peng, hub):
    hub.faults["hub/api/models/.*/revision"] = [status(429, Retry_After=86400)] * 9
    peng("pull", REPO, code=1)
    assert "HTTP 429" in one_line(peng.errors)


def test_a_silent_server_is_left(peng, hub):
    hub.faults["hub/api/models/.*/revision"] = [hang(20)]
    peng("pull", REPO, "--timeout", 1, timeout=60)
    assert "trying again" in peng.errors


def test_nobody_there(peng, hub):
    peng("pull", REPO, "--retries", 1, code=1, env={"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert "127.0.0.1:9" in last_line(peng.errors) and "HF_ENDPOINT" in last_line(peng.errors)


def test_a_full_disk(peng, hub, big):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    peng("pull", BIG, code=1, preexec_fn=limited, restore_signals=False)  # SIGXFSZ stays ignored: writing fails
    assert "make room" in last_line(peng.errors)
    assert sum(p.stat().st_size for p in peng.partials(BIG)) <= 1_000_200
    peng("pull", BIG)
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big
    hub.listing = [{"type": "file", "path": "a.gguf", "size": 1 << 60, "lfs": {"oid": "a" * 64, "size": 1 << 60}}]
    peng("pull", REPO, code=1)
    assert "are free" in one_line(peng.errors)


# ---------------------------------------------------------------------- hostile listings

HOSTILE = ["../evil.json", "/tmp/evil.json", "a/../../evil.json", "a\\..\\evil.json", ".peng/manifest.json", "a//b.json", "a\nb.json",
           "", "x" * 300]


@pytest.mark.parametrize("path", HOSTILE)
def test_paths_that_leave_the_folder_are_refused(peng, hub, path):
    hub.listing = [{"type": "file", "path": "model.safetensors", "size": 1, "oid": "a" * 40},
                   {"type": "file", "path": path, "size": 1, "oid": "a" * 40}]
    peng("pull", REPO, "--include", "*", code=1)
    assert "the file name" in one_line(peng.errors)
    assert not peng.folder().exists() or peng.files() == {}


def test_duplicates_and_hostile_json_are_refused(peng, hub):
    file = {"type": "file", "path": "a.json", "size": 1, "oid": "a" * 40}
    hub.listing = [file, file]
    peng("pull", REPO, code=1)
    assert "is there twice" in one_line(peng.errors)
    hub.listing = None
    hub.page_size = 1
    hub.faults["hub/api/models/.*/tree"] = [body(json.dumps([file]).encode(), Link=f'<{hub.url}/api/models/x/tree/y>; rel="next"'),
                                            body(json.dumps([file]).encode())]
    peng("pull", REPO, code=1)
    assert "is there twice" in one_line(peng.errors)
    hub.page_size = 1000
    for text in (b"[" * 1_000_000, b"[" + b"1," * 9_000_000, b"{", b"\xff\xfe", b"[" + b'"' + b"x" * 20_000_000):
        hub.faults["hub/api/models/.*/tree"] = [body(text)]
        peng("pull", REPO, "--retries", 0, code=1)
        assert hub.url[7:] in one_line(peng.errors)


def test_links_in_the_folder_are_not_followed(peng, hub):
    hub.repos[REPO]["sub/a.json"] = b"a"
    outside = peng.home / "outside"
    outside.mkdir()
    peng.folder().mkdir(parents=True)
    (peng.folder() / "sub").symlink_to(outside)
    (peng.folder() / "config.json").symlink_to(outside / "config.json")
    peng("pull", REPO, "--include", "*", code=1)
    assert "is a link" in last_line(peng.errors)
    assert list(outside.iterdir()) == []


# ---------------------------------------------------------------------- processes

def test_interrupted_pulls_leave_what_arrived(peng, hub, big):
    hub.slow = True
    process = peng.start("pull", BIG)
    assert hub.half_sent.wait(60)
    deadline = time.monotonic() + 30
    while sum(p.stat().st_size for p in peng.partials(BIG)) < 1_500_000 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted; what has arrived is kept; run the same command to go on" in errors.decode()
    hub.slow = False
    peng("pull", BIG)
    assert hub.bytes_requests("/blob/")[-1]["Range"] == "bytes=1500000-"
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big


def test_killed_pulls_are_gone_on_with(peng, hub, big):
    hub.slow = True
    process = peng.start("pull", BIG)
    assert hub.half_sent.wait(60)
    deadline = time.monotonic() + 30
    while sum(p.stat().st_size for p in peng.partials(BIG)) < 1_500_000 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    hub.slow = False
    peng("pull", BIG)
    assert hub.bytes_requests("/blob/")[-1]["Range"] == "bytes=1500000-"
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big


def test_two_pulls_of_one_model_take_turns(peng, hub, big):
    hub.slow = True
    first = peng.start("pull", BIG)
    assert hub.half_sent.wait(60)
    second = peng.start("pull", BIG)
    seen = second.stderr.readline()
    assert b"another peng works on this model" in seen
    hub.go_on.set()
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert len(hub.bytes_requests("/blob/")) == 1
    assert peng.files(BIG)["Big-Q4_0.gguf"] == big


def test_a_crash_while_files_are_put_into_place(peng, hub):
    peng("pull", REPO)
    (peng.folder() / ".peng" / "publishing").touch()
    peng("complete", REPO, "-p", "x", "--max-tokens", 1, code=2, env={"HF_HUB_OFFLINE": "1"})
    hub.seen.clear()
    peng("pull", REPO)
    assert not hub.bytes_requests("/blob/")  # the files were right: their checksums say so
    peng("complete", REPO, "-p", "x", "--max-tokens", 1, env={"HF_HUB_OFFLINE": "1"})


def test_a_bar_on_a_terminal_only(peng, hub, big):
    hub.slow = True
    control, terminal = pty.openpty()
    process = subprocess.Popen([peng.binary, "pull", BIG], stdout=subprocess.PIPE, stderr=terminal, env=peng.environment)
    os.close(terminal)
    assert hub.half_sent.wait(60)
    shown = b""
    while b"50 %" not in shown:
        shown += os.read(control, 4096)
    hub.go_on.set()
    assert process.stdout.read().decode() == f"{peng.folder(BIG)}/Big-Q4_0.gguf\n"
    process.wait(60)
    assert b"\r[" in shown and b"of 2 files" in shown


# ---------------------------------------------------------------------- offline

@pytest.mark.parametrize("env, words", [({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"), ({"TRANSFORMERS_OFFLINE": "true"}, "TRANSFORMERS_OFFLINE"),
                                        ({"PENG_OFFLINE": "1"}, "PENG_OFFLINE"), ({}, "--offline")])
def test_offline_never_asks_the_network(peng, hub, env, words):
    flags = [] if env else ["--offline"]
    for command in (["pull", REPO], ["complete", REPO, "-p", "x"]):
        peng(*command, *flags, code=2, env=env)
        line = one_line(peng.errors)
        if command[0] == "complete" and words == "PENG_OFFLINE":
            assert "offline" in line.lower()
        else:
            assert words in line
        assert str(peng.folder()) in line and "models--deep-org--Tiny-1.5" in line and "--import" in line
    assert hub.seen == []
    peng("pull", REPO)
    hub.seen.clear()
    assert peng("pull", REPO, *flags, env=env) == f"{peng.folder()}\n"
    peng("complete", REPO, "-p", "x", "--max-tokens", 1, *flags, env=env)
    assert hub.seen == []


# ---------------------------------------------------------------------- proxies and certificates

class Proxy(http.server.BaseHTTPRequestHandler):
    """A proxy for http that notes what it is asked for and answers itself from the hub."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        request = urllib.request.Request(self.path, headers={n: v for n, v in self.headers.items() if n != "Proxy-Connection"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())
        try:
            reply = opener.open(request)
        except urllib.error.HTTPError as error:
            reply = error
        data = reply.read()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in ("content-length", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


@pytest.fixture
def proxy():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.asked = []
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_proxies(peng, hub, proxy, variable):
    peng("pull", REPO, env={variable: proxy.url})
    assert peng.files() == hub.repos[REPO]
    assert any("/blob/" in path for path in proxy.asked)
    proxy.asked.clear()
    subprocess.run(["rm", "-rf", peng.home / "peng"], check=True)
    peng("pull", REPO, env={variable: proxy.url, "no_proxy": "127.0.0.1"})
    assert proxy.asked == []


class Tunnel(http.server.BaseHTTPRequestHandler):
    """A proxy for https, which sees where to but not what."""

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        self.server.asked.append((self.path, dict(self.headers)))
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.end_headers()
            near = self.connection
            while True:
                for ready in select.select([near, far], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        self.close_connection = True
                        return
                    (far if ready is near else near).sendall(data)


@pytest.fixture
def tunnel():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tunnel)
    server.daemon_threads = True
    server.asked = []
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A private authority and a certificate of it for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=private authority", "-days", "3650")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "host.key", "-out", "host.csr",
            "-subj", "/CN=127.0.0.1")
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "host.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "host.pem", "-days", "3650",
            "-extfile", "ext")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "host.pem", folder / "host.key")
    return folder / "ca.pem", context


def test_a_private_certificate_authority(peng, hub, certificates):
    ca, context = certificates
    secure = FakeHub(context)
    secure.add(REPO, hub.repos[REPO])
    env = {"HF_ENDPOINT": secure.url}
    try:
        peng("pull", REPO, code=1, env=env)
        assert "--ca-file" in one_line(peng.errors) and "SSL_CERT_FILE" in one_line(peng.errors)
        for more, flags in (({"SSL_CERT_FILE": ca}, []), ({"REQUESTS_CA_BUNDLE": ca}, []), ({"CURL_CA_BUNDLE": ca}, []), ({}, ["--ca-file", ca])):
            subprocess.run(["rm", "-rf", peng.home / "peng"], check=True)
            peng("pull", REPO, *flags, env={**env, **{k: str(v) for k, v in more.items()}})
            assert peng.files() == hub.repos[REPO]
        # A token that went out encrypted does not go on in the clear, nor does anything else.
        secure.faults["hub/api/models/.*/revision"] = [redirect(hub.url + "/x")]
        peng("pull", REPO, "--ca-file", ca, code=1, env=env)
        assert "without encryption" in one_line(peng.errors)
        peng("pull", REPO, code=2, env={**env, "SSL_CERT_FILE": "/nowhere.pem"})
        assert "SSL_CERT_FILE" in one_line(peng.errors)
    finally:
        secure.close()


def test_proxies_for_https_see_no_token(peng, hub, certificates, tunnel):
    ca, context = certificates
    secure = FakeHub(context)
    secure.add(REPO, hub.repos[REPO])
    try:
        peng("pull", REPO, env={"HF_ENDPOINT": secure.url, "SSL_CERT_FILE": str(ca), "https_proxy": tunnel.url, "HF_TOKEN": "hf_right"})
    finally:
        secure.close()
    assert peng.files() == hub.repos[REPO]
    assert {where for where, _ in tunnel.asked} == {secure.url[8:], secure.storage_url[8:]}
    assert all("Authorization" not in headers for _, headers in tunnel.asked)


# ---------------------------------------------------------------------- bad usage

@pytest.mark.parametrize("arguments, words", [
    ([], "NAME"), (["a b"], "is no name of a model"), (["../x"], "is no name"), (["o/m", "--max-workers", "0"], "--max-workers"),
    (["o/m", "--retries", "-1"], "--retries"), (["o/m", "--timeout", "0"], "--timeout"), (["o/m", "--hub", "elsewhere"], "elsewhere"),
    (["o/m", "--import", "x"], "--import"), (["o/m", "--ca-file", "/nowhere"], "--ca-file"), (["o/m", "--exprot", "x"], "--exprot"),
])
def test_bad_usage(peng, hub, arguments, words):
    peng("pull", *arguments, code=2)
    assert words in one_line(peng.errors)
    assert hub.seen == []


@pytest.mark.parametrize("env, words", [({"HF_ENDPOINT": "ftp://x"}, "HF_ENDPOINT"), ({"HF_TOKEN": "a\nb"}, "HF_TOKEN"),
                                        ({"PENG_HUB": "x"}, "hub")])
def test_bad_environment(peng, env, words):
    peng("pull", REPO, code=2, env=env)
    assert words in one_line(peng.errors) and "a\nb" not in peng.errors
