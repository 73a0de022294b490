# SPDX-License-Identifier: Apache-2.0
"""Fields that the server does not know: told in the reply, or refused with --strict-params."""
import openai
import pytest

from .conftest import TINY, client_of, events, post

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HI = [{"role": "user", "content": "hi"}]
HARMLESS = {"user": "u", "store": True, "metadata": {"a": "b"}, "service_tier": "auto", "safety_identifier": "s",
            "prompt_cache_key": "k", "verbosity": "low", "parallel_tool_calls": True}  # fmt: skip


def params(reply):
    return [warning["param"] for warning in reply.warnings]


def test_unknown_fields_are_named_in_the_reply(client):
    reply = client.chat.completions.create(
        model="tiny", max_tokens=1, messages=[*HI, {"role": "user", "content": "x", "opts": 1}],
        response_format={"type": "text", "strange": 1}, extra_body={"foo": 1, "guided_foo": 2},
    )  # fmt: skip
    assert params(reply) == ["foo", "guided_foo", "messages[1].opts", "response_format.strange"]
    assert all("ignored" in warning["message"] for warning in reply.warnings)
    assert params(client.completions.create(model="tiny", prompt="x", max_tokens=1, extra_body={"foo": 1})) == ["foo"]


def test_openais_own_fields_are_silent(client, tiny):
    reply = client.chat.completions.create(model="tiny", max_tokens=1, messages=HI, **HARMLESS)
    assert "warnings" not in reply.model_extra
    status, reply = post(tiny, TEXT, {"prompt": "x", "max_tokens": 1, **HARMLESS})
    assert status == 200 and "warnings" not in reply


# Parameters of vLLM and OpenAI that change a reply and are not there, with a value that asks for something.
REFUSED = {
    "structured_outputs": {"regex": "a"}, "guided_json": {}, "guided_regex": "a", "guided_choice": ["a"], "guided_grammar": "a",
    "guided_decoding_backend": "x", "use_beam_search": True, "length_penalty": 2, "suffix": "x", "prompt_embeds": "x",
    "truncate_prompt_tokens": 5, "logprob_token_ids": [1], "thinking_token_budget": 5, "repetition_detection": {"a": 1},
    "kv_transfer_params": {"a": 1}, "vllm_xargs": {"a": 1}, "stream_interval": 2, "best_of": 2, "chat_template": "{{ x }}",
    "functions": [{"name": "f"}], "function_call": "auto", "modalities": ["audio"], "audio": {"voice": "a"}, "lora_request": {"a": 1},
    "spaces_between_special_tokens": False, "return_prompt_text": True, "logits_processors": ["a"],
    "mm_processor_kwargs": {"a": 1}, "media_io_kwargs": {"a": 1},
}  # fmt: skip


@pytest.mark.parametrize("path,body", [(CHAT, {"messages": HI}), (TEXT, {"prompt": "x"})])
def test_parameters_that_are_not_there_are_refused_by_name(tiny, path, body):
    for name, value in REFUSED.items():
        for stream in (False, True):
            status, reply = post(tiny, path, {**body, "max_tokens": 1, "stream": stream, name: value})
            assert status == 400 and reply["error"]["param"] == name and name in reply["error"]["message"], (name, reply)
        status, reply = post(tiny, path, {**body, "max_tokens": 1, name: None})
        assert status == 200, (name, reply)


@pytest.mark.parametrize("path,body", [(CHAT, {"messages": HI}), (TEXT, {"prompt": "x"})])
def test_known_fields_without_effect_are_told(tiny, path, body):
    idle = {"session_id": "s", "include_reasoning": True, "truncation_side": "left"}
    for fields in (idle, {name: [1] for name in idle}, {name: 5 for name in HARMLESS}):
        status, reply = post(tiny, path, {**body, "max_tokens": 1, **fields})
        assert status == 200, reply
        assert sorted(w["param"] for w in reply["warnings"]) == sorted(fields)
        assert all(f"'{w['param']}' has no effect" in w["message"] for w in reply["warnings"])
    first, *_ = events(tiny, path, {**body, "max_tokens": 2, "truncation_side": "left", "foo": 1})
    assert [w["param"] for w in first["warnings"]] == ["truncation_side", "foo"]


@pytest.mark.parametrize("path,body", [(CHAT, {"messages": HI}), (TEXT, {"prompt": "x"})])
def test_the_first_chunk_has_the_warnings(tiny, path, body):
    options = {"include_usage": True, "x": 1}
    first, *rest = events(tiny, path, {**body, "max_tokens": 3, "foo": 1, "stream_options": options})
    assert [w["param"] for w in first["warnings"]] == ["foo", "stream_options.x"]
    assert all("warnings" not in chunk for chunk in rest[:-1])


def test_the_client_reads_them_from_a_stream(client):
    chunks = list(client.chat.completions.create(model="tiny", max_tokens=2, messages=HI, stream=True, extra_body={"foo": 1}))
    assert params(chunks[0]) == ["foo"] and chunks[-1].choices[0].finish_reason


def test_strict_params(start_server):
    server = start_server(TINY, "--strict-params", "--served-model-name", "tiny")
    client = client_of(server)
    assert client.chat.completions.create(model="tiny", max_tokens=1, messages=HI, **HARMLESS).choices
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "x", "opts": 1}], stream=stream
            )
        assert refused.value.body["param"] == "messages[0].opts"
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(model="tiny", prompt="x", stream=stream, extra_body={"foo": 1})
        assert refused.value.body["param"] == "foo"
    assert post(server, "/tokenize", {"prompt": "x", "foo": 1})[1]["error"]["param"] == "foo"
    assert post(server, "/detokenize", {"tokens": [9], "foo": 1})[0] == 400
