# SPDX-License-Identifier: Apache-2.0
"""Every sampling and generation parameter: the values at both ends of its range work, those beyond are refused with 400, by
name and with the range."""
import pytest

from .conftest import events, post

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
BODY = {CHAT: {"messages": [{"role": "user", "content": "hi"}]}, TEXT: {"prompt": "hi"}}
BOTH = (CHAT, TEXT)
STOPS = ["a", "b", "c", "d"]
NAN = float("nan")

# (parameter, other fields that it needs, values that work, {value: words of the refusal}); of both endpoints.
RANGES = [
    ("max_tokens", {}, [1, 8, 10**9], {-5: "at least 1", 1.5: "integer", "x": "integer", True: "integer"}),
    ("n", {"temperature": 1}, [1, 3], {0: "[1, 16384], got 0", -1: "[1, 16384]", 16385: "[1, 16384], got 16385", 2**70: "integer"}),
    ("n", {"temperature": 0}, [1], {2: "must be 1 when using greedy sampling, got 2"}),
    ("temperature", {}, [0, 1e-6, 1e-3, 1, 2, 2.0], {-0.1: "[0, 2], got -0.1", 2.1: "[0, 2], got 2.1", "hot": "number", True: "number"}),
    ("top_p", {}, [1e-9, 0.5, 1], {0: "(0, 1], got 0.0", -1: "(0, 1], got -1.0", 1.1: "(0, 1], got 1.1"}),
    ("top_k", {}, [-1, 0, 1, 10**6], {-2: "0 or -1 (disable), or at least 1, got -2", 0.5: "integer", 2**40: "top_k"}),
    ("min_p", {}, [0, 0.5, 1], {-0.1: "[0, 1], got -0.1", 1.1: "[0, 1], got 1.1"}),
    ("presence_penalty", {}, [-2, 0, 2], {-2.1: "[-2, 2], got -2.1", 2.1: "[-2, 2], got 2.1"}),
    ("frequency_penalty", {}, [-2, 0, 2], {-2.1: "[-2, 2], got -2.1", 2.1: "[-2, 2], got 2.1"}),
    ("repetition_penalty", {}, [0.01, 1, 50], {0: "greater than zero, got 0.0", -1: "greater than zero, got -1.0"}),
    ("seed", {}, [-1, 0, 2**63 - 1, -(2**63)], {2**63: "64-bit integer", -(2**64): "64-bit integer", "x": "integer"}),
    ("stop", {}, ["a", [], STOPS, None], {"": "empty string", 5: "list", (*STOPS, "e"): "at most 4 strings, got 5", ("a", ""): "empty string", (1,): "strings"}),
    ("stop_token_ids", {}, [[], [0, 511], None], {(512,): "out-of-vocab", (-1,): "not negative", ("x",): "token ids", 5: "list"}),
    ("include_stop_str_in_output", {}, [True, False], {"yes": "boolean", 1: "boolean"}),
    ("ignore_eos", {}, [True, False], {"yes": "boolean"}),
    ("min_tokens", {"max_tokens": 4}, [0, 4], {-1: "greater than or equal to 0, got -1", 5: "less than or equal to max_tokens=4, got 5"}),
    ("skip_special_tokens", {}, [True, False], {0: "boolean"}),
    ("spaces_between_special_tokens", {}, [True], {}),
    ("logit_bias", {}, [{}, {"0": 1}, {"511": -1000.0, "7": 1000}], {}),
    ("allowed_token_ids", {}, [[0], [5, 511], None], {(): "must not be empty", (512,): "out-of-vocab", (-1,): "not negative"}),
    ("allowed_token_ids", {"min_tokens": 1}, [[5, 1]], {(1,): "leaves no token to choose"}),
    ("allowed_token_ids", {"min_tokens": 1, "stop_token_ids": [9]}, [[9, 10]], {(1, 9): "leaves no token to choose"}),
    ("bad_words", {}, [[], ["a"], ["a b", "c"], None], {("",): "empty string", tuple(f"{i} x" for i in range(200)): "at most 128"}),
    ("prompt_logprobs", {}, [0, 1, 20], {-2: "positive value or -1", 21: "max allowed: 20", -1: "max allowed: 20"}),
    ("priority", {}, [0, None], {1: "Got priority 1 but Priority scheduling is not enabled", -(2**63): "Got priority -9223372036854775808 but", 2**63: "integer", "x": "integer"}),
    ("cache_salt", {}, ["a", "x" * 128, None], {"": "1 to 128 characters", "x" * 129: "1 to 128", "a@b": "'@'", "a/b": "'@'", "a\\b": "'@'", "\0": "'@'"}),
    ("stream_options", {"stream": False}, [None], {}),
    ("request_id", {}, ["abc", None], {5: "string"}),
    ("add_special_tokens", {}, [True, False, None], {"x": "boolean"}),
    ("return_token_ids", {}, [True, False, None], {"x": "boolean"}),
    ("return_tokens_as_token_ids", {}, [True, False, None], {"x": "boolean"}),
    ("user", {}, ["me", None], {}),
    ("echo", {}, [True, False], {"x": "boolean"}),
]
CHAT_ONLY = [
    ("max_completion_tokens", {"max_tokens": 1}, [1, 10**9], {0: "at least 1", -5: "at least 1", "x": "integer"}),
    ("max_tokens", {}, [1], {0: "at least 1"}),
    ("logprobs", {}, [True, False], {3: "boolean"}),
    ("top_logprobs", {"logprobs": True}, [0, 1, 20, None], {21: "max allowed: 20", -2: "positive value or -1", -1: "max allowed: 20"}),
    ("top_logprobs", {}, [0], {1: "`logprobs` must be set to true"}),
]
TEXT_ONLY = [
    ("max_tokens", {"echo": True}, [0, 1], {-1: "at least 1"}),
    ("max_tokens", {}, [None], {0: "at least 1"}),
    ("logprobs", {}, [0, 1, 20, None], {21: "max allowed: 20", -2: "positive value or -1", True: "integer", -1: "max allowed: 20"}),
]
CASES = [(p, *case) for case in RANGES for p in BOTH] + [(CHAT, *c) for c in CHAT_ONLY] + [(TEXT, *c) for c in TEXT_ONLY]


@pytest.mark.parametrize("path, field, more, good, bad", CASES, ids=[f"{c[0].split('/')[2]} {c[1]} {i}" for i, c in enumerate(CASES)])
def test_ranges(tiny, path, field, more, good, bad):
    short = {} if "max_tokens" in (field, *more) or field == "max_completion_tokens" else {"max_tokens": 2}
    base = {**BODY[path], "seed": 1, **short, **more}
    for value in good:
        if field == "max_tokens" and value in (10**9, None):
            base = {**base, "allowed_token_ids": [1]}  # which ends the reply
        status, reply = post(tiny, path, {**base, field: value})
        assert status == 200, (value, reply)
    for value, words in bad.items():
        value = list(value) if isinstance(value, tuple) else value
        status, reply = post(tiny, path, {**base, field: value})
        assert status == 400, (value, reply)
        # The limit is that of all log-probabilities, which vLLM calls logprobs.
        assert reply["error"]["param"] == ("logprobs" if "max allowed" in words and field == "top_logprobs" else field), reply
        assert words in reply["error"]["message"], (value, reply)


@pytest.mark.parametrize("bias, words", [({"512": 1}, "out-of-vocab"), ({"-1": 1}, "out-of-vocab"), ({"x": 1}, "must be token ids"),
                                         ({"1": "a"}, "number"), ([1], "object"), ({"1.5": 1}, "must be token ids")])
def test_logit_bias(tiny, bias, words):
    for path in BOTH:
        status, reply = post(tiny, path, {**BODY[path], "max_tokens": 1, "logit_bias": bias})
        assert status == 400 and reply["error"]["param"] == "logit_bias" and words in reply["error"]["message"], reply


def test_numbers_that_json_lacks(tiny):
    for path in BOTH:
        for value in ("NaN", "Infinity", "-Infinity", "1e999"):
            body = '{"prompt": "x", "messages": [{"role": "user", "content": "x"}], "temperature": %s}' % value
            status, reply = post(tiny, path, body, headers={"Content-Type": "application/json"})
            assert status == 400, reply


def test_streams_give_no_prompt_logprobs(tiny):
    for path in BOTH:
        for options in ({"stream": True, "prompt_logprobs": 1}, {"stream_options": {"include_usage": True}}):
            status, reply = post(tiny, path, {**BODY[path], "max_tokens": 1, **options})
            assert status == 400 and reply["error"]["param"] in options, reply


def test_limits_over_all_choices(tiny):
    status, reply = post(tiny, TEXT, {"prompt": ["x"] * 1024, "n": 17, "max_tokens": 1})
    assert status == 400 and "at most 16384" in reply["error"]["message"]
    status, reply = post(tiny, TEXT, {"prompt": ["x"] * 1025, "max_tokens": 1})
    assert status == 400 and "at most 1024 prompts" in reply["error"]["message"]


def test_texts_that_cannot_fit_are_refused_before_they_are_tokenized(tiny):
    for path, field in (("/tokenize", "prompt"), (TEXT, "prompt")):
        status, reply = post(tiny, path, {"prompt": "x" * (6 << 20)})
        assert status == 400 and reply["error"]["param"] == field, reply
        assert "at most" in reply["error"]["message"] and str(6 << 20) in reply["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_limits_that_leave_no_token_are_the_requests_fault(tiny, stream):
    """Whether a bad word of several tokens forbids all that is allowed is only known when its beginning has been chosen."""
    tokens = {c * 2: post(tiny, "/tokenize", {"prompt": c * 2, "add_special_tokens": False})[1]["tokens"] for c in "qzxjQZXJ#~^"}
    word, (first, _) = next((word, ids) for word, ids in tokens.items() if len(ids) == 2 and ids[0] == ids[1])
    body = {"prompt": [9], "temperature": 0, "max_tokens": 4, "ignore_eos": True, "allowed_token_ids": [first]}
    assert post(tiny, TEXT, body)[0] == 200
    body["bad_words"] = [word]
    if stream:
        error = events(tiny, TEXT, body)[-2]["error"]
    else:
        status, reply = post(tiny, TEXT, body)
        assert status == 400
        error = reply["error"]
    assert error["code"] == 400 and error["type"] == "BadRequestError" and "leave none to choose" in error["message"], error
    assert "ERROR" not in tiny.log()
