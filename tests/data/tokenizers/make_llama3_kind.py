#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes llama3_kind.json: a small vocabulary of our own with Llama-3's pre-tokenizer, and the ids that the Python
tokenizers package (Oniguruma regular expressions) gives for texts.json.

Usage: make_llama3_kind.py      (needs the tokenizers package; writes beside itself)
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTROL = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]


def main() -> None:
    texts = json.loads((HERE / "texts.json").read_text())
    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    base.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    base.train_from_iterator([t["text"] for t in texts if len(t["text"]) < 4000], trainer)
    model = json.loads(base.to_str())["model"]
    # Whole words without merges: only ignore_merges reaches them.
    words = ["Ġwonderful", "ĠWorld", "ä½łå¥½"]
    vocab = dict(model["vocab"])
    for word in words:
        vocab.setdefault(word, len(vocab))
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    tok = Tokenizer(models.BPE(vocab, merges, ignore_merges=True))
    tok.pre_tokenizer = base.pre_tokenizer
    tok.decoder = base.decoder
    tok.add_special_tokens([AddedToken(c, special=True, normalized=False) for c in CONTROL])
    tokens = [tok.id_to_token(i) for i in range(tok.get_vocab_size())]
    texts = texts + [{"name": "whole_words", "text": "a wonderful World 你好"},
                     {"name": "headers", "text": "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"}]
    cases = [{"text": t["text"], "ids": tok.encode(t["text"], add_special_tokens=False).ids} for t in texts]
    out = {
        "model": "gpt2", "pre": "llama-bpe", "tokens": tokens,
        "token_type": [3 if t in CONTROL else 1 for t in tokens],
        "merges": [" ".join(m) for m in merges],
        "bos_token_id": tok.token_to_id(CONTROL[0]), "eos_token_id": tok.token_to_id(CONTROL[2]),
        "cases": cases,
    }
    (HERE / "llama3_kind.json").write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
