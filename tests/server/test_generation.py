# SPDX-License-Identifier: Apache-2.0
"""What the official client gets from a model whose exact output is known."""
import math

import openai
import pytest

from .conftest import events, post

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MESSAGES = [{"role": "user", "content": "Say something."}]


def test_greedy_tokens_are_the_reference(tiny, reference):
    for prompt, expected in zip(reference["prompts"], reference["greedy"]):
        body = {
            "prompt": prompt, "max_tokens": len(expected), "temperature": 0, "ignore_eos": True, "return_token_ids": True
        }
        status, reply = post(tiny, TEXT, body)
        assert status == 200, reply
        assert reply["choices"][0]["token_ids"] == expected
        assert reply["choices"][0]["prompt_token_ids"] == prompt
        assert reply["usage"]["prompt_tokens"] == len(prompt)
        streamed = [c["choices"][0] for c in events(tiny, TEXT, body)[:-1]]
        assert sum((c["token_ids"] for c in streamed), []) == expected
        assert "".join(c["text"] for c in streamed) == reply["choices"][0]["text"]


def test_many_prompts_at_once_are_as_alone(tiny, reference):
    body = {"prompt": reference["prompts"], "max_tokens": 32, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    _, reply = post(tiny, TEXT, body)
    assert [choice["token_ids"] for choice in reply["choices"]] == reference["greedy"]
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]


def test_chat_streamed_and_whole(client):
    arguments = dict(model="tiny", messages=MESSAGES, max_tokens=24, seed=7, temperature=0.8)
    whole = client.chat.completions.create(**arguments)
    assert whole.object == "chat.completion" and whole.id.startswith("chatcmpl-")
    assert whole.choices[0].message.role == "assistant"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(client.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:-1])
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks[:-1]][-1] == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_completions_streamed_and_whole(client):
    arguments = dict(model="tiny", prompt="Once upon a time", max_tokens=24, seed=7)
    whole = client.completions.create(**arguments)
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**arguments, stream=True))
    assert streamed == whole.choices[0].text
    assert whole.usage.completion_tokens <= 24


def test_every_chunk_has_its_shape(tiny):
    chunks = events(tiny, CHAT, {"messages": MESSAGES, "max_tokens": 8, "seed": 1})
    assert chunks.pop() == "[DONE]"
    for i, chunk in enumerate(chunks):
        assert chunk["object"] == "chat.completion.chunk" and isinstance(chunk["created"], int)
        assert chunk["model"] == "tiny" and "usage" not in chunk
        (choice,) = chunk["choices"]
        assert choice["index"] == 0 and "finish_reason" in choice and "logprobs" in choice
        assert (choice["finish_reason"] is None) == (i + 1 < len(chunks))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")


def test_seeds_repeat_and_differ(client):
    def text(seed):
        reply = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=24, seed=seed, temperature=1)
        return reply.choices[0].message.content

    assert text(1) == text(1)
    assert text(1) != text(2)
    assert len({text(None) for _ in range(3)}) > 1


def test_several_choices(client):
    reply = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=16, seed=3, temperature=1, n=3)
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in reply.choices}) > 1
    again = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=16, seed=3, temperature=1, n=3)
    assert [c.message.content for c in again.choices] == [c.message.content for c in reply.choices]
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=16, seed=3, temperature=1, n=3, stream=True
    ):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [c.message.content for c in reply.choices]


def test_chat_logprobs(client):
    reply = client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=6, temperature=0, logprobs=True, top_logprobs=4
    )
    content = reply.choices[0].logprobs.content
    assert len(content) == reply.usage.completion_tokens
    for position in content:
        values = [top.logprob for top in position.top_logprobs]
        assert len(values) == 4 and values == sorted(values, reverse=True)
        assert position.logprob == values[0]  # greedy
        assert sum(math.exp(v) for v in values) <= 1 + 1e-6
    text = b"".join(bytes(p.bytes) for p in content if p.bytes)
    assert reply.choices[0].message.content in text.decode("utf-8", "replace")


def test_completion_logprobs_and_echo(tiny, reference):
    prompt = reference["prompts"][1]
    body = {"prompt": prompt, "max_tokens": 3, "temperature": 0, "logprobs": 2, "echo": True, "ignore_eos": True}
    _, reply = post(tiny, TEXT, body)
    logprobs = reply["choices"][0]["logprobs"]
    assert len(logprobs["tokens"]) == len(logprobs["token_logprobs"]) == len(prompt) + 3
    assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
    assert all(value <= 0 for value in logprobs["token_logprobs"][1:])
    assert logprobs["text_offset"] == sorted(logprobs["text_offset"])
    _, scored = post(tiny, TEXT, {**body, "max_tokens": 0})
    assert scored["choices"][0]["logprobs"]["token_logprobs"] == logprobs["token_logprobs"][: len(prompt)]
    _, shown = post(tiny, TEXT, {**body, "echo": False, "logprobs": None, "prompt_logprobs": 1})
    assert len(shown["choices"][0]["prompt_logprobs"]) == len(prompt)
    assert shown["choices"][0]["prompt_logprobs"][0] is None
    assert str(prompt[1]) in shown["choices"][0]["prompt_logprobs"][1]


def test_stop_strings_at_every_cut(tiny, reference):
    body = {"prompt": reference["prompts"][1], "max_tokens": 20, "temperature": 0, "ignore_eos": True}
    _, reply = post(tiny, TEXT, body)
    text = reply["choices"][0]["text"]
    assert len(text) > 20
    for start in range(0, len(text), 2):
        for length in (1, 5):
            stop = text[start : start + length]
            if "�" in stop:
                continue
            _, whole = post(tiny, TEXT, {**body, "stop": [stop]})
            choice = whole["choices"][0]
            assert choice["text"] == text[: text.find(stop)]
            assert choice["finish_reason"] == "stop" and choice["stop_reason"] == stop
            chunks = events(tiny, TEXT, {**body, "stop": [stop]})[:-1]
            assert "".join(c["choices"][0]["text"] for c in chunks) == choice["text"]
            assert chunks[-1]["choices"][0]["stop_reason"] == stop


def test_stop_tokens_bias_and_allowed_ids(tiny, reference):
    prompt, greedy = reference["prompts"][0], reference["greedy"][0]
    body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True}

    def ids(**more):
        status, reply = post(tiny, TEXT, {**body, **more})
        assert status == 200, reply
        return reply["choices"][0]["token_ids"], reply["choices"][0]

    tokens, choice = ids(stop_token_ids=[greedy[3]])
    assert tokens == greedy[:4] and choice["stop_reason"] == greedy[3] and choice["finish_reason"] == "stop"
    assert ids(logit_bias={"9": 100})[0] == [9] * 8
    assert ids(logit_bias={str(greedy[0]): -100})[0][0] != greedy[0]
    assert set(ids(allowed_token_ids=[7, 8])[0]) <= {7, 8}
    assert len(set(ids(logit_bias={"9": 5, "10": 5}, frequency_penalty=2, allowed_token_ids=[9, 10])[0])) == 2


def test_end_token_by_bias_ends_the_reply(tiny):
    _, reply = post(tiny, TEXT, {"prompt": "x", "temperature": 0, "logit_bias": {"1": 100}})
    choice = reply["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("", "stop", None)
    _, reply = post(tiny, TEXT, {"prompt": "x", "temperature": 0, "logit_bias": {"3": 100}, "stop": "<｜User｜>"})
    choice = reply["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("", "stop", "<｜User｜>")


def test_a_chat_prompt_has_one_bos(tiny):
    _, chat = post(tiny, "/tokenize", {"messages": MESSAGES})
    assert chat["tokens"].count(0) == 1 and chat["tokens"][0] == 0
    _, text = post(tiny, "/detokenize", {"tokens": chat["tokens"]})
    _, again = post(tiny, "/tokenize", {"prompt": text["prompt"]})
    assert again["tokens"] == chat["tokens"]
    _, reply = post(tiny, CHAT, {"messages": MESSAGES, "max_tokens": 1})
    assert reply["usage"]["prompt_tokens"] == chat["count"]


def test_models(client, tiny):
    (model,) = client.models.list().data
    assert model.id == "tiny"
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="gpt-9", prompt="x")
    assert caught.value.body["type"] == "NotFoundError" and "tiny" in caught.value.body["message"]


def test_the_real_model_answers(server):
    body = {"messages": [{"role": "user", "content": "What is gravity?"}], "max_tokens": 40, "temperature": 0}
    status, reply = post(server, CHAT, body)
    assert status == 200, reply
    assert reply["choices"][0]["message"]["content"].startswith("Gravity is ")
