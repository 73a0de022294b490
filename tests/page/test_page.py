# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, against a small server that plays the parts a real one rarely plays on demand:
events cut in the middle of a character, errors before and after the first piece, a stream that stops short.

Needs Chromium (apt package `chromium`); PENG_TEST_SCREENSHOTS names a folder to leave pictures in.
"""
import http.server
import json
import os
import pathlib
import re
import shutil
import threading
import time

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

# Long enough for a machine that is busy with something else; no test waits for it to pass.
PATIENCE_MS = 90_000
sync_api.expect.set_options(timeout=PATIENCE_MS)

PAGE = pathlib.Path(__file__).resolve().parents[2] / "web" / "index.html"


def event(delta=None, finish=None, **more) -> bytes:
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}]}
    return b"data: " + json.dumps({**chunk, **more}, ensure_ascii=False).encode() + b"\n\n"


class Script:
    """What the fake server does next, and what it was asked."""

    def __init__(self):
        self.model = "SmolLM2-135M-Instruct"
        self.key = None
        self.requests = []
        self.replies = []       # one per request: (status, body) or a list of bytes and pauses in seconds
        self.disconnected = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    script: Script

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refused(self) -> bool:
        key = self.script.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return False
        self.send(401, b'{"error":"Unauthorized"}')
        return True

    def do_GET(self):
        if self.path == "/":
            self.send(200, PAGE.read_bytes(), "text/html; charset=utf-8")
        elif self.path == "/v1/models" and not self.refused():
            self.send(200, json.dumps({"data": [{"id": self.script.model, "max_model_len": 8192}]}).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        self.script.requests.append(body)
        reply = self.script.replies.pop(0)
        if isinstance(reply, tuple):
            self.send(*reply)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for piece in reply:
                if isinstance(piece, float):
                    time.sleep(piece)
                    continue
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            self.script.disconnected.set()


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def url(script):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Scripted", (Handler,), {"script": script}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, request):
    """open_page(url, **context options) -> page; fails the test if the page broke its own rules (console errors)."""
    contexts, faults = [], []

    def fault(message):
        # A refused request is reported by the browser too, and is part of some tests.
        if message.type == "error" and "Failed to load resource" not in message.text:
            faults.append(message.text)

    def start(url, **options):
        context = browser.new_context(**{"locale": "en-US", **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", fault)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(url)
        return page

    yield start
    folder, name = os.environ.get("PENG_TEST_SCREENSHOTS"), re.sub(r"\W+", "-", request.node.name)
    for number, context in enumerate(contexts):
        if folder:
            context.pages[0].screenshot(path=f"{folder}/{name}-{number}.png")
        context.close()
    assert not faults


def ask(page, text):
    page.fill("#prompt", text)
    page.press("#prompt", "Enter")


def finished(page):
    sync_api.expect(page.locator("#send")).to_be_visible()


def test_streams_events_cut_anywhere(open_page, url, script):
    whole = event({"role": "assistant", "content": ""}) + event({"content": "鹏 flies"}) + event({"content": " <b>far</b>🐦"})
    whole += event({}, "stop") + event(choices=[], usage={"completion_tokens": 7}) + b"data: [DONE]\n\n"
    whole = whole.replace(b"\n\n", b"\r\n\r\n", 1)
    script.replies = [[part for i in range(len(whole)) for part in (whole[i : i + 1], 0.0002)]]
    page = open_page(url)
    ask(page, "Hello")
    finished(page)
    assert page.inner_text(".assistant .body") == "鹏 flies <b>far</b>🐦"
    figures = page.inner_text(".assistant .figures")
    assert "7 tokens" in figures and "tokens/s" in figures and "first token" in figures
    assert script.requests[0]["model"] == "SmolLM2-135M-Instruct" and script.requests[0]["stream"] is True


def test_carries_the_conversation_and_forgets_it(open_page, url, script):
    answer = [event({"content": "one"}), event({}, "stop"), b"data: [DONE]\n\n"]
    script.replies = [answer, answer, answer]
    page = open_page(url)
    for question in ("first", "second"):
        ask(page, question)
        finished(page)
    assert [m["content"] for m in script.requests[1]["messages"]] == ["first", "one", "second"]
    page.click("#new")
    assert page.locator(".turn").count() == 0
    page.click("#settings summary")
    page.fill("#system", "Be brief")
    page.fill("#temperature", "0")
    page.fill("#max-tokens", "5")
    ask(page, "third")
    finished(page)
    assert [m["role"] for m in script.requests[2]["messages"]] == ["system", "user"]
    assert script.requests[2]["temperature"] == 0 and script.requests[2]["max_tokens"] == 5


def test_stop_ends_the_request_and_keeps_the_text(open_page, url, script):
    script.replies = [[event({"content": "tick "}), *[p for _ in range(200) for p in (0.05, event({"content": "tock "}))]]]
    page = open_page(url)
    ask(page, "Count")
    sync_api.expect(page.locator(".assistant .body")).to_contain_text("tock")
    page.click("#stop")
    finished(page)
    assert script.disconnected.wait(60)
    assert "stopped" in page.inner_text(".assistant .figures") and "tick" in page.inner_text(".assistant .body")


@pytest.mark.parametrize(
    "reply, shown",
    [
        ((400, b'{"error":{"message":"max_tokens must be positive","type":"BadRequestError","param":null,"code":400}}'), "max_tokens must be positive"),
        ([b'data: {"error":{"message":"out of blocks","type":"InternalServerError","code":500}}\n\n', b"data: [DONE]\n\n"], "out of blocks"),
        ([event({"content": "half"})], "connection was lost"),
        ((502, b"<h1>Bad gateway</h1>"), "502: <h1>Bad gateway</h1>"),
    ],
)
def test_shows_errors(open_page, url, script, reply, shown):
    script.replies = [reply]
    page = open_page(url)
    ask(page, "Hello")
    sync_api.expect(page.locator(".error")).to_contain_text(shown)
    if page.locator(".assistant").count() == 0:
        assert page.input_value("#prompt") == "Hello"


def test_asks_for_a_key_and_keeps_it(open_page, url, script):
    script.key = "s3cret"
    script.replies = [[event({"content": "ok"}), event({}, "stop"), b"data: [DONE]\n\n"]]
    page = open_page(url)
    sync_api.expect(page.locator("#model")).to_contain_text("API key")
    page.fill("#key", "s3cret")
    page.press("#key", "Tab")
    sync_api.expect(page.locator("#model")).to_contain_text("SmolLM2")
    page.reload()
    ask(page, "Hello")
    finished(page)
    assert page.inner_text(".assistant .body") == "ok"
    assert page.evaluate("localStorage.getItem('peng.key')") is None


def test_says_what_the_default_model_is_only_for_it(open_page, url, script):
    page = open_page(url)
    sync_api.expect(page.locator("#note")).to_be_visible()
    assert "small English" in page.inner_text("#note") and "peng serve" in page.inner_text("#note")
    script.model = "DeepSeek-R1-Distill-Qwen-7B"
    page.reload()
    sync_api.expect(page.locator("#model")).to_contain_text("DeepSeek")
    sync_api.expect(page.locator("#note")).to_be_hidden()
    assert "not affiliated with vLLM, Huawei or DeepSeek" in page.inner_text("footer")


def test_speaks_chinese_and_remembers_the_choice(open_page, url):
    page = open_page(url, locale="zh-CN")
    assert page.inner_text("#send") == "发送" and page.get_attribute("html", "lang") == "zh-CN"
    page.click("#language")
    assert page.inner_text("#send") == "Send"
    page.reload()
    assert page.inner_text("#send") == "Send"


def test_enter_of_an_input_method_sends_nothing(open_page, url, script):
    page = open_page(url)
    page.fill("#prompt", "ni")
    page.evaluate(
        "document.getElementById('prompt').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true}))"
    )
    page.press("#prompt", "Shift+Enter")
    assert page.input_value("#prompt") == "ni\n" and not script.requests


def test_fits_a_phone_in_the_dark(open_page, url, script):
    long_line = "x" * 300
    script.replies = [[event({"reasoning": "hm"}), event({"content": long_line}), event({}, "length"), b"data: [DONE]\n\n"]]
    page = open_page(url, viewport={"width": 360, "height": 640}, color_scheme="dark")
    ask(page, "Hello")
    finished(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.inner_text(".assistant summary") == "Reasoning"
    assert "token limit" in page.inner_text(".assistant .figures")


def test_with_peng_itself(open_page, server):
    page = open_page(server.url + "/")
    sync_api.expect(page.locator("#note")).to_be_visible()
    page.click("#settings summary")
    page.fill("#temperature", "0")
    page.fill("#max-tokens", "40")
    page.click("#settings summary")
    ask(page, "What is gravity?")
    sync_api.expect(page.locator("#send")).to_be_visible()
    assert "ravity" in page.inner_text(".assistant .body")
    assert "tokens/s" in page.inner_text(".assistant .figures")
    assert page.locator(".error").count() == 0
