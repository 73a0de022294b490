// SPDX-License-Identifier: Apache-2.0
//! Tokenizers from the vocabulary of a GGUF file.

use std::sync::Arc;

use tokenizers::models::bpe::BPE;
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use crate::abi::*;
use crate::tokenizer::{PengTokenizer, Table, Tok, MAX_VOCAB};

/// Token types of the GGUF format.
mod token_type {
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
    pub const UNUSED: i32 = 5;
}

/// A GGUF vocabulary. Arrays are borrowed for the call only.
#[repr(C)]
pub struct PengGguf {
    pub tokens: *const PengStr,
    pub n_tokens: usize,
    /// `n_tokens` values, or null: all normal.
    pub types: *const i32,
    /// "left right" each. Unused with `sentencepiece`.
    pub merges: *const PengStr,
    pub n_merges: usize,
    /// `n_tokens` values; `sentencepiece` only.
    pub scores: *const f32,
    pub sentencepiece: bool,
    pub add_space_prefix: bool,
    /// Whole words of the vocabulary are taken as they are.
    pub ignore_merges: bool,
    /// JSON in the form of tokenizer.json; empty for none.
    pub pre_tokenizer: PengStr,
    pub normalizer: PengStr,
}

struct Vocab {
    tokens: Vec<String>,
    types: Vec<i32>,
}

impl Vocab {
    unsafe fn read(g: &PengGguf) -> Outcome<Vocab> {
        if g.n_tokens == 0 || g.n_tokens > MAX_VOCAB {
            return Err(Failure::new(format!("{} tokens", g.n_tokens)));
        }
        let tokens = slice(g.tokens, g.n_tokens).iter().map(|t| t.text().into_owned()).collect();
        let types = if g.types.is_null() { vec![1; g.n_tokens] } else { slice(g.types, g.n_tokens).to_vec() };
        Ok(Vocab { tokens, types })
    }

    fn ids(&self) -> ahash::AHashMap<String, u32> {
        let mut ids = ahash::AHashMap::with_capacity(self.tokens.len());
        for (id, text) in self.tokens.iter().enumerate() {
            // Fillers are no text that a prompt could mean. Of two equal texts the first id is the one in use.
            if self.types[id] != token_type::UNUSED {
                ids.entry(text.clone()).or_insert(id as u32);
            }
        }
        ids
    }

    fn unknown(&self) -> Option<&String> {
        self.types.iter().position(|t| *t == token_type::UNKNOWN).map(|id| &self.tokens[id])
    }

    fn added(&self, wanted: i32) -> Vec<AddedToken> {
        let special = wanted == token_type::CONTROL;
        let texts = self.tokens.iter().zip(&self.types).filter(|(_, t)| **t == wanted);
        texts.map(|(text, _)| AddedToken::from(text.clone(), special).normalized(false)).collect()
    }

    fn pieces(&self) -> Table {
        let mut pieces = Table::default();
        for (text, kind) in self.tokens.iter().zip(&self.types) {
            pieces.push(if *kind == token_type::UNUSED { &[] } else { text.as_bytes() });
        }
        pieces
    }
}

unsafe fn read_merges(g: &PengGguf) -> Outcome<Vec<(String, String)>> {
    let split = |(rank, merge): (usize, &PengStr)| {
        let text = merge.text();
        match text.split_once(' ') {
            Some((left, right)) => Ok((left.to_string(), right.to_string())),
            None => Err(Failure::new(format!("merge {rank} has no space"))),
        }
    };
    slice(g.merges, g.n_merges).iter().enumerate().map(split).collect()
}

/// Merges that make BPE join the pair with the best score first, as SentencePiece does.
fn merges_from_scores(ids: &ahash::AHashMap<String, u32>, scores: &[f32]) -> Vec<(String, String)> {
    let mut merges = Vec::new();
    for (piece, id) in ids {
        for (cut, _) in piece.char_indices().skip(1) {
            let (left, right) = piece.split_at(cut);
            if let (Some(l), Some(r)) = (ids.get(left), ids.get(right)) {
                merges.push((scores[*id as usize], *id, *l, *r, left, right));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
    merges.into_iter().map(|m| (m.4.to_string(), m.5.to_string())).collect()
}

fn from_text<T: serde::de::DeserializeOwned>(json: &[u8]) -> Outcome<Option<T>> {
    if json.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(json).map(Some).map_err(|e| Failure::new(e.to_string()))
}

fn from_value<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> Outcome<T> {
    serde_json::from_value(json).map_err(|e| Failure::new(e.to_string()))
}

fn sentencepiece_normalizer(add_space_prefix: bool) -> Outcome<NormalizerWrapper> {
    let mut steps = Vec::new();
    if add_space_prefix {
        steps.push(serde_json::json!({"type": "Prepend", "prepend": "\u{2581}"}));
    }
    steps.push(serde_json::json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}));
    from_value(serde_json::json!({"type": "Sequence", "normalizers": steps}))
}

fn sentencepiece_decoder(strip: bool) -> Outcome<DecoderWrapper> {
    let mut steps = vec![
        serde_json::json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}),
        serde_json::json!({"type": "ByteFallback"}),
        serde_json::json!({"type": "Fuse"}),
    ];
    if strip {
        steps.push(serde_json::json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    from_value(serde_json::json!({"type": "Sequence", "decoders": steps}))
}

unsafe fn build(g: &PengGguf) -> Outcome<Tok> {
    let fail = |e: tokenizers::Error| Failure::new(e.to_string());
    let vocab = Vocab::read(g)?;
    let ids = vocab.ids();
    let mut bpe = BPE::builder().ignore_merges(g.ignore_merges);
    if g.sentencepiece {
        let merges = merges_from_scores(&ids, slice(g.scores, g.n_tokens));
        bpe = bpe.vocab_and_merges(ids, merges).byte_fallback(true).fuse_unk(true);
        if let Some(unknown) = vocab.unknown() {
            bpe = bpe.unk_token(unknown.clone());
        }
    } else {
        bpe = bpe.vocab_and_merges(ids, read_merges(g)?);
    }
    let mut inner = Tokenizer::new(bpe.build().map_err(fail)?);
    if g.sentencepiece {
        inner.with_normalizer(Some(sentencepiece_normalizer(g.add_space_prefix)?)).map_err(fail)?;
        inner.with_decoder(Some(sentencepiece_decoder(g.add_space_prefix)?));
    } else {
        inner.with_normalizer(from_text::<NormalizerWrapper>(g.normalizer.bytes())?).map_err(fail)?;
        inner.with_pre_tokenizer(from_text::<PreTokenizerWrapper>(g.pre_tokenizer.bytes())?);
        let byte_level = serde_json::json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
        inner.with_decoder(Some(from_value::<DecoderWrapper>(byte_level)?));
    }
    inner.add_special_tokens(vocab.added(token_type::CONTROL)).map_err(fail)?;
    inner.add_tokens(vocab.added(token_type::USER_DEFINED)).map_err(fail)?;
    Tok::new(inner, Some(vocab.pieces()))
}

/// # Safety
/// Pointers are valid; `out` receives a handle for `peng_tokenizer_free`.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_from_gguf(
    gguf: *const PengGguf,
    out: *mut *mut PengTokenizer,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || {
        let tok = build(&*gguf)?;
        *out = Box::into_raw(Box::new(PengTokenizer(Arc::new(tok))));
        Ok(())
    })
}
