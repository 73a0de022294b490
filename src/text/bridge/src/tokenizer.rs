// SPDX-License-Identifier: Apache-2.0
//! Tokenizers: text to ids through the `tokenizers` crate, and one table from ids to bytes for the way back.
//!
//! Decoding is not done here: every supported decoder is "concatenate the bytes of each token", so the table is
//! enough for whole replies, for streams and for constrained decoding alike.

use std::sync::Arc;

use serde_json::Value as Json;
use tokenizers::{Model, OffsetType, Tokenizer};

use crate::abi::*;
use crate::pretokenizer::Steps;

/// How a vocabulary piece spells bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spelling {
    /// GPT-2's printable stand-ins, one character per byte.
    ByteLevel,
    /// SentencePiece: U+2581 is a space, `<0xNN>` a byte.
    Sentencepiece,
}

/// Byte strings by id, in one allocation.
#[derive(Default)]
pub struct Table {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Table {
    pub fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(self.data.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, id: usize) -> &[u8] {
        match self.ends.get(id) {
            Some(end) => &self.data[if id == 0 { 0 } else { self.ends[id - 1] }..*end],
            None => &[],
        }
    }
}

pub struct Tok {
    pub inner: Tokenizer,
    steps: Steps,
    pieces: Table,
    bytes: Table,
    special: Vec<bool>,
    strips_leading_space: bool,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
}

/// The handle that C++ holds.
pub struct PengTokenizer(pub Arc<Tok>);

/// First code point above those of GPT-2's printable stand-ins for bytes.
const STAND_INS: usize = 0x144;

/// The byte that each of GPT-2's printable stand-ins means; -1: none.
fn byte_level_chars() -> [i16; STAND_INS] {
    let mut shifted = 0x100;
    let mut byte_of = [-1; STAND_INS];
    for b in 0..=255usize {
        let printable = (0x21..=0x7e).contains(&b) || (0xa1..=0xac).contains(&b) || b >= 0xae;
        if printable {
            byte_of[b] = b as i16;
        } else {
            byte_of[shifted] = b as i16;
            shifted += 1;
        }
    }
    byte_of
}

/// `<0xNN>` as its byte.
fn byte_piece(piece: &str) -> Option<u8> {
    let hex = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() == 2 {
        u8::from_str_radix(hex, 16).ok()
    } else {
        None
    }
}

fn push_bytes(table: &mut Table, piece: &str, spelling: Spelling, byte_of: &[i16; STAND_INS]) {
    if spelling == Spelling::Sentencepiece {
        match byte_piece(piece) {
            Some(b) => table.push(&[b]),
            None => table.push(piece.replace('\u{2581}', " ").as_bytes()),
        }
        return;
    }
    let start = table.data.len();
    for c in piece.chars() {
        match byte_of.get(c as usize).copied().unwrap_or(-1) {
            -1 => {
                // A token with any other character (an added token) stands for itself.
                table.data.truncate(start);
                table.data.extend_from_slice(piece.as_bytes());
                break;
            }
            b => table.data.push(b as u8),
        }
    }
    table.ends.push(table.data.len());
}

/// The spelling of every id, empty where there is none.
fn read_pieces(inner: &Tokenizer) -> Outcome<Table> {
    let mut missing = inner.get_vocab_size(true);
    // Files leave small gaps at most; a stray huge id must not cost memory.
    let limit = (2 * missing + 4096).min(MAX_VOCAB);
    let mut pieces = Table::default();
    while missing > 0 {
        let id = pieces.len() as u32;
        if id as usize > limit {
            return Err(Failure::new(format!("token ids beyond {limit} leave too large gaps")));
        }
        let piece = inner.id_to_token(id);
        missing -= usize::from(piece.is_some());
        pieces.push(piece.unwrap_or_default().as_bytes());
    }
    Ok(pieces)
}

/// The spelling behind a decoder of tokenizer.json, and whether it drops the first space of a text.
fn read_decoder(decoder: &Json) -> Outcome<(Spelling, bool)> {
    let steps: Vec<&Json> = match decoder["decoders"].as_array() {
        Some(list) => list.iter().collect(),
        None => vec![decoder],
    };
    let (mut spelling, mut strips) = (None, false);
    for step in steps {
        match step["type"].as_str().unwrap_or("none") {
            "ByteLevel" => spelling = Some(Spelling::ByteLevel),
            "Metaspace" => {
                spelling = Some(Spelling::Sentencepiece);
                strips = step["prepend_scheme"].as_str() != Some("never");
            }
            "Replace" if step["pattern"]["String"] == "\u{2581}" && step["content"] == " " => {
                spelling = Some(Spelling::Sentencepiece)
            }
            "Strip" if step["content"] == " " && step["start"] == 1 && step["stop"] == 0 => strips = true,
            "ByteFallback" | "Fuse" => {}
            other => {
                return Err(Failure::new(format!(
                    "decoder {other} is not supported (ByteLevel, Metaspace and the SentencePiece sequence are)"
                )))
            }
        }
    }
    match spelling {
        Some(s) => Ok((s, strips)),
        None => Err(Failure::new("the tokenizer has no decoder")),
    }
}

/// Ids that the post-processor puts before and after a text.
fn special_affixes(inner: &Tokenizer) -> Outcome<(Vec<u32>, Vec<u32>)> {
    let encode = |special| {
        inner
            .encode_fast("a", special)
            .map(|e| e.get_ids().to_vec())
            .map_err(|e| Failure::new(format!("the post-processor fails: {e}")))
    };
    let (plain, with) = (encode(false)?, encode(true)?);
    let at = with.windows(plain.len().max(1)).position(|w| w == plain).unwrap_or(with.len());
    let end = (at + plain.len()).min(with.len());
    Ok((with[..at].to_vec(), with[end..].to_vec()))
}

/// Vocabularies of this many rows or more are not plausible and would make the tables huge.
pub const MAX_VOCAB: usize = 1 << 24;

impl Tok {
    /// `pieces` overrides what the vocabulary map says, for files that give two ids the same text.
    pub fn new(inner: Tokenizer, pieces: Option<Table>) -> Outcome<Tok> {
        let decoder = serde_json::to_value(inner.get_decoder()).map_err(|e| Failure::new(e.to_string()))?;
        let (spelling, strips_leading_space) = read_decoder(&decoder)?;
        let pieces = match pieces {
            Some(p) => p,
            None => read_pieces(&inner)?,
        };
        let mut special = vec![false; pieces.len()];
        for (id, token) in inner.get_added_vocabulary().get_added_tokens_decoder() {
            if let Some(s) = special.get_mut(*id as usize) {
                *s = token.special;
            }
        }
        let byte_of = byte_level_chars();
        let mut bytes = Table::default();
        for id in 0..pieces.len() {
            let piece = String::from_utf8_lossy(pieces.get(id));
            push_bytes(&mut bytes, &piece, spelling, &byte_of);
        }
        let (prefix, suffix) = special_affixes(&inner)?;
        let steps = Steps::of(&inner)?;
        Ok(Tok { inner, steps, pieces, bytes, special, strips_leading_space, prefix, suffix })
    }

    pub fn from_json(json: &[u8]) -> Outcome<Tok> {
        let mut inner = Tokenizer::from_bytes(json).map_err(|e| Failure::new(e.to_string()))?;
        // Files carry whatever the training script used last; a server never cuts or pads a prompt silently.
        inner.with_truncation(None).map_err(|e| Failure::new(e.to_string()))?;
        inner.with_padding(None);
        Tok::new(inner, None)
    }

    pub fn encode(&self, text: &str) -> Outcome<Vec<u32>> {
        let added = self.inner.get_added_vocabulary();
        let mut parts = added.extract_and_normalize(self.inner.get_normalizer(), text);
        let encoding = self
            .steps
            .run(&mut parts)
            .and_then(|()| self.inner.get_model().tokenize_in_pretokenized(&mut parts, None))
            .and_then(|()| parts.into_encoding(None, 0, OffsetType::None))
            .map_err(|e| Failure::new(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
    }

    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id as usize)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    fn piece(&self, id: u32) -> &[u8] {
        self.pieces.get(id as usize)
    }

    fn id(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }
}

/// # Safety
/// Pointers are valid; `out` receives a handle for `peng_tokenizer_free`.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_from_json(
    json: PengStr,
    out: *mut *mut PengTokenizer,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || {
        let tok = Tok::from_json(json.bytes())?;
        *out = Box::into_raw(Box::new(PengTokenizer(Arc::new(tok))));
        Ok(())
    })
}

/// # Safety
/// `tok` is null or a live handle, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_free(tok: *mut PengTokenizer) {
    if !tok.is_null() {
        guard(std::ptr::null_mut(), || {
            drop(Box::from_raw(tok));
            Ok(())
        });
    }
}

/// # Safety
/// Live handle and valid pointers. May be called from several threads at once.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_encode(
    tok: *const PengTokenizer,
    text: PengStr,
    out: *mut PengIds,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || {
        store_ids(out, (*tok).0.encode(&text.text())?);
        Ok(())
    })
}

/// # Safety
/// Live handle.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_vocab_size(tok: *const PengTokenizer) -> usize {
    (*tok).0.vocab_size()
}

fn borrow(bytes: &[u8]) -> PengStr {
    PengStr { data: bytes.as_ptr(), size: bytes.len() }
}

/// The bytes of token `id`, alive as long as the handle; empty for ids without text.
///
/// # Safety
/// Live handle.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_bytes(tok: *const PengTokenizer, id: u32) -> PengStr {
    borrow((&(*tok).0).token_bytes(id))
}

/// The vocabulary's own spelling of token `id`, alive as long as the handle.
///
/// # Safety
/// Live handle.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_piece(tok: *const PengTokenizer, id: u32) -> PengStr {
    borrow((&(*tok).0).piece(id))
}

/// # Safety
/// Live handle.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_is_special(tok: *const PengTokenizer, id: u32) -> bool {
    (*tok).0.is_special(id)
}

/// # Safety
/// Live handle.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_strips_leading_space(tok: *const PengTokenizer) -> bool {
    let tok = &(*tok).0;
    tok.strips_leading_space
}

/// The id of the token spelled `piece`, or -1.
///
/// # Safety
/// Live handle and valid pointers.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_id(tok: *const PengTokenizer, piece: PengStr) -> i64 {
    (*tok).0.id(&piece.text()).map_or(-1, i64::from)
}

/// The ids that the post-processor puts before (`suffix` false) or after a text.
///
/// # Safety
/// Live handle and valid pointers.
#[no_mangle]
pub unsafe extern "C" fn peng_tokenizer_affix(tok: *const PengTokenizer, suffix: bool, out: *mut PengIds) {
    let tok = &(*tok).0;
    store_ids(out, if suffix { tok.suffix.clone() } else { tok.prefix.clone() });
}
