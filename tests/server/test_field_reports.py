# SPDX-License-Identifier: Apache-2.0
"""Faults that users reported about servers of this kind, over HTTP. The names of the tests begin with the report's number
in the table of tests/README.md."""
import concurrent.futures
import json
import random
import shutil

import pytest

from .conftest import MODELS, TINY, events, post, request, wait_until_idle

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
VOCAB = 512


def text_of(server, body):
    status, reply = post(server, TEXT, body)
    assert status == 200, reply
    return reply["choices"][0]


def test_d01_streams_of_any_tokens_are_the_whole_text(tiny):
    # Sampled far from what the model likes: bytes that never make a character, special tokens, ids without text.
    for seed in range(12):
        body = {"prompt": [9], "max_tokens": 64, "temperature": 2, "seed": seed, "ignore_eos": True,
                "skip_special_tokens": seed % 2 == 0, "logit_bias": {str(i): 4 for i in range(7, 263)}, "return_token_ids": True}
        whole = text_of(tiny, body)
        assert "\ufffd" in whole["text"]
        chunks = events(tiny, TEXT, body)
        assert chunks.pop() == "[DONE]"
        assert "".join(c["choices"][0]["text"] for c in chunks) == whole["text"]
        assert sum((c["choices"][0]["token_ids"] for c in chunks), []) == whole["token_ids"]


def test_d02_text_before_a_stop_is_streamed(tiny, reference):
    # The whole reply, then stops that it holds or nearly holds: what is held back comes out.
    body = {"prompt": reference["prompts"][2], "max_tokens": 24, "temperature": 0, "ignore_eos": True}
    text = text_of(tiny, body)["text"]
    for at in range(1, len(text), 3):
        for stop in (text[at], text[at : at + 3], text[at : at + 2] + "\x01"):
            if "\ufffd" in stop:
                continue
            with_stop = {**body, "stop": [stop]}
            expected = text.split(stop)[0]
            assert text_of(tiny, with_stop)["text"] == expected
            assert "".join(c["choices"][0]["text"] for c in events(tiny, TEXT, with_stop)[:-1]) == expected


def test_d03_markers_stop_whatever_is_shown(tiny):
    marker = 3  # "<｜User｜>"
    for skip in (True, False):
        for include in (True, False):
            body = {"prompt": "x", "temperature": 0, "max_tokens": 8, "logit_bias": {str(marker): 100}, "skip_special_tokens": skip,
                    "include_stop_str_in_output": include}
            by_text = text_of(tiny, {**body, "stop": "<｜User｜>"})
            assert (by_text["finish_reason"], by_text["stop_reason"]) == ("stop", "<｜User｜>")
            assert by_text["text"] == ("<｜User｜>" if include else "")
            by_id = text_of(tiny, {**body, "stop_token_ids": [marker]})
            assert (by_id["finish_reason"], by_id["stop_reason"]) == ("stop", marker)


@pytest.fixture(scope="module")
def several_ends(start_server, tmp_path_factory):
    """llama_gqa whose config ends at 1 and whose generation_config at 1, 20 and 21."""
    folder = tmp_path_factory.mktemp("several_ends")
    for file in TINY.iterdir():
        if not file.name.startswith("ref"):
            shutil.copyfile(file, folder / file.name)
    config = json.loads((TINY / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**config, "eos_token_id": [1, 20, 21]}))
    return start_server(folder, "--dtype", "float32")


def test_d03_every_end_token_ends(several_ends):
    for end in (1, 20, 21):
        body = {"prompt": "x", "temperature": 0, "max_tokens": 6, "logit_bias": {str(end): 100}, "return_token_ids": True}
        choice = text_of(several_ends, body)
        assert (choice["finish_reason"], choice["token_ids"], choice["text"]) == ("stop", [end], "")
        choice = text_of(several_ends, {**body, "ignore_eos": True})
        assert (choice["finish_reason"], choice["token_ids"]) == ("length", [end] * 6)


def test_d04_one_bos(tiny):
    conversations = json.loads((MODELS.parent / "chat_templates" / "conversations.json").read_text())
    plain = [c for c in conversations if not c["tools"] and not c["kwargs"]]
    checked = 0
    for conversation in plain:
        status, reply = post(tiny, "/tokenize", {"messages": conversation["messages"]})
        if status != 200:
            continue
        assert reply["tokens"][0] == 0 and reply["tokens"].count(0) == 1, conversation["name"]
        status, done = post(tiny, CHAT, {"messages": conversation["messages"], "max_tokens": 1, "return_token_ids": True})
        if status == 200:  # some are longer than this model's context
            assert done["prompt_token_ids"] == reply["tokens"]
            checked += 1
    assert checked >= 20
    # A text gets the BOS that the tokenizer asks for, and keeps its own.
    _, bare = post(tiny, "/tokenize", {"prompt": "Hello"})
    _, own = post(tiny, "/tokenize", {"prompt": "<｜begin▁of▁sentence｜>Hello"})
    assert bare["tokens"] == own["tokens"] and bare["tokens"].count(0) == 1
    _, reply = post(tiny, TEXT, {"prompt": "<｜begin▁of▁sentence｜>Hello", "max_tokens": 1})
    assert reply["usage"]["prompt_tokens"] == bare["count"]


STRICT = """{{ bos_token }}{% for m in messages %}{% if m.role == 'system' and not loop.first %}
{{- raise_exception('System message must be at the beginning.') }}{% endif %}
{%- if m.role == 'user' and not loop.first and messages[loop.index0 - 1].role == 'user' %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{{- '<' ~ m.role ~ '>' }}{% if m.content is not none %}{{ m.content }}{% endif %}
{%- for call in m.tool_calls or [] %}[{{ call.function.name }} {{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}]{% endfor %}
{%- endfor %}"""


@pytest.fixture(scope="module")
def strict(start_server, tmp_path_factory):
    path = tmp_path_factory.mktemp("strict") / "strict.jinja"
    path.write_text(STRICT)
    return start_server(TINY, "--chat-template", path, "--dtype", "float32")


USER, SYSTEM = {"role": "user", "content": "a"}, {"role": "system", "content": "s"}


def call(arguments, content):
    function = {"name": "f", "arguments": arguments}
    return {"role": "assistant", "content": content, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


@pytest.mark.parametrize("messages, words", [
    ([USER, USER], "Conversation roles must alternate user/assistant/user/assistant/..."),
    ([USER, SYSTEM], "System message must be at the beginning."),
])
def test_d05_the_templates_own_words(strict, messages, words):
    for stream in (False, True):
        status, _, text = request(strict, "POST", CHAT, {"messages": messages, "max_tokens": 1, "stream": stream})
        assert status == 400
        error = json.loads(text)["error"]
        assert words in error["message"] and error["param"] == "messages"


@pytest.mark.parametrize("messages, rendered", [
    ([USER, call('{"x": 1}', None), {"role": "tool", "content": "7", "tool_call_id": "1"}, USER],
     '<user>a<assistant>[f {"x": 1}]<tool>7<user>a'),
    ([USER, call({"x": 1}, None)], '<user>a<assistant>[f {"x": 1}]'),
    ([USER, call('{"x": 1}', "I call")], '<user>a<assistant>I call[f {"x": 1}]'),
    ([USER], "<user>a"),
    ([SYSTEM, USER], "<system>s<user>a"),
])
def test_d05_null_content_calls_and_no_system_message(strict, messages, rendered):
    status, reply = post(strict, "/tokenize", {"messages": messages})
    assert status == 200, reply
    assert reply["tokens"] == post(strict, "/tokenize", {"prompt": rendered})[1]["tokens"]
    assert post(strict, CHAT, {"messages": messages, "max_tokens": 1})[0] == 200


def test_d05_variables_are_not_the_conversation(strict):
    status, reply = post(strict, CHAT, {"messages": [USER], "chat_template_kwargs": {"messages": [SYSTEM]}, "max_tokens": 1})
    assert status == 400 and reply["error"]["param"] == "chat_template_kwargs.messages"


def test_d14_absurd_values_leave_others_alone(tiny, reference):
    # The refusals themselves are in test_http.py and test_parameters.py.
    good = {"prompt": reference["prompts"][0], "max_tokens": 16, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    bad = [{"logit_bias": {"99999": 1}}, {"logit_bias": {"-1": 1}}, {"logit_bias": {"x": 1}}, {"top_p": -1}, {"top_p": 0},
           {"temperature": -1}, {"temperature": 999999}, {"temperature": "NaN"}, {"repetition_penalty": 0}, {"seed": 2**64},
           {"n": 0}, {"max_tokens": -5}, {"min_p": -1}]
    odd = [{"temperature": 1e-4}, {"temperature": 1e-300}, {"top_p": 1e-300}, {"top_k": 2**31 - 1}, {"min_p": 1.0},
           {"seed": 2**63 - 1}, {"seed": -(2**63)}, {"logit_bias": {"5": 1e300}}, {"repetition_penalty": 1e-4, "temperature": 1},
           {"presence_penalty": -2, "frequency_penalty": 2, "temperature": 2}]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = [pool.submit(text_of, tiny, good) for _ in range(8)]
        for case in bad:
            status, reply = post(tiny, TEXT, {"prompt": "x", **case})
            assert status == 400 and reply["error"]["param"] == next(iter(case)), reply
        for case in odd:
            choice = text_of(tiny, {"prompt": "x", "max_tokens": 8, "ignore_eos": True, "return_token_ids": True, **case})
            assert len(choice["token_ids"]) == 8, case
        assert all(job.result()["token_ids"] == reference["greedy"][0][:16] for job in running)
    assert request(tiny, "GET", "/health")[0] == 200


def test_d15_nothing_ends_before_min_tokens(several_ends):
    base = {"prompt": "x", "temperature": 0, "max_tokens": 30, "min_tokens": 20, "return_token_ids": True}
    free = text_of(several_ends, {**base, "ignore_eos": True})
    stop = free["text"][1]
    for more in ({"stop": [stop]}, {"stop_token_ids": [free["token_ids"][2]]}, {"logit_bias": {"20": 100}}, {"logit_bias": {"21": 100, "1": 100}}):
        for stream in (False, True):
            if stream:
                chunks = events(several_ends, TEXT, {**base, **more})[:-1]
                count = sum(len(c["choices"][0]["token_ids"]) for c in chunks)
            else:
                status, reply = post(several_ends, TEXT, {**base, **more})
                assert status == 200, reply
                count = reply["usage"]["completion_tokens"]
            assert count >= 20, more


def test_d16_penalties_do_not_depend_on_neighbours(tiny):
    plain = {"prompt": list(range(20, 60)), "max_tokens": 24, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    bodies = [{**plain, "repetition_penalty": 2}, plain, {**plain, "presence_penalty": 2}, {**plain, "frequency_penalty": -1}]
    alone = [text_of(tiny, body)["token_ids"] for body in bodies]
    assert len({tuple(ids) for ids in alone}) > 1
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for seed in range(4):
            order = random.Random(seed).sample(range(4), 4)
            found = dict(zip(order, pool.map(lambda i: text_of(tiny, bodies[i])["token_ids"], order)))
            assert [found[i] for i in range(4)] == alone
    wait_until_idle(tiny)


def test_d16_what_each_penalty_sees(tiny):
    # Two tokens that are nearly as good, the better one in the prompt: the repetition penalty turns them round, the
    # others see only what is generated.
    body = {"prompt": [30, 31, 32], "max_tokens": 1, "temperature": 0, "allowed_token_ids": [30, 500], "return_token_ids": True}
    for lead in range(-30, 31):
        body["logit_bias"] = {"30": 50 + lead, "500": 50}
        if text_of(tiny, body)["token_ids"] == [30]:
            break
    assert text_of(tiny, {**body, "presence_penalty": 2})["token_ids"] == [30]
    assert text_of(tiny, {**body, "frequency_penalty": 2})["token_ids"] == [30]
    assert text_of(tiny, {**body, "repetition_penalty": 1.5})["token_ids"] == [500]
