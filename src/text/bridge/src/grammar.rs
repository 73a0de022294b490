// SPDX-License-Identifier: Apache-2.0
//! Constrained decoding: which tokens may come next under a JSON schema, a regular expression or a grammar.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::abi::*;
use crate::tokenizer::{PengTokenizer, Tok, MAX_VOCAB};

struct Env {
    trie: TokTrie,
    tok: Arc<Tok>,
}

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        // An empty answer means "nothing can be forced", which is always allowed.
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.tok.encode(text).unwrap_or_default())
    }
}

pub struct PengGrammarFactory {
    factory: ParserFactory,
    rows: usize,
}

pub struct PengGrammar {
    matcher: Matcher,
    rows: usize,
}

fn trie_word(tok: &Tok, id: u32) -> Vec<u8> {
    let bytes = tok.token_bytes(id);
    if !tok.is_special(id) {
        return bytes.to_vec();
    }
    // The marker keeps text of a reply from matching a special token's spelling.
    let mut word = vec![TokTrie::SPECIAL_TOKEN_MARKER];
    word.extend_from_slice(bytes);
    word
}

fn build(tok: &Arc<Tok>, rows: usize, eos: &[u32]) -> Outcome<PengGrammarFactory> {
    if rows < tok.vocab_size() || rows > MAX_VOCAB {
        return Err(Failure::new(format!("{rows} logit rows for {} tokens", tok.vocab_size())));
    }
    let known: Vec<u32> = eos.iter().copied().filter(|id| (*id as usize) < rows).collect();
    let Some(first) = known.first() else {
        return Err(Failure::new("the model has no end-of-sequence token"));
    };
    let words: Vec<Vec<u8>> = (0..rows as u32).map(|id| trie_word(tok, id)).collect();
    let trie = TokTrie::from(&TokRxInfo::new(rows as u32, *first), &words).with_eos_tokens(&known);
    let env: TokEnv = Arc::new(Env { trie, tok: tok.clone() });
    let mut factory = ParserFactory::new_simple(&env).map_err(|e| Failure::new(e.to_string()))?;
    factory.quiet();
    Ok(PengGrammarFactory { factory, rows })
}

fn compile(factory: &PengGrammarFactory, kind: &str, source: &str) -> Outcome<PengGrammar> {
    let fail = |e: &dyn std::fmt::Display| Failure::new(e.to_string());
    let grammar = TopLevelGrammar::from_tagged_str(kind, source).map_err(|e| fail(&e))?;
    let matcher = Matcher::new(factory.factory.create_parser(grammar));
    match matcher.get_error() {
        Some(message) => Err(Failure::new(message)),
        None => Ok(PengGrammar { matcher, rows: factory.rows }),
    }
}

/// A factory for constraints over `rows` logits (padding rows are never allowed). Builds the token trie.
///
/// # Safety
/// Live handle and valid pointers; `out` receives a handle for `peng_grammar_factory_free`.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_factory_new(
    tok: *const PengTokenizer,
    rows: usize,
    eos: *const u32,
    n_eos: usize,
    out: *mut *mut PengGrammarFactory,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || {
        *out = Box::into_raw(Box::new(build(&(*tok).0, rows, slice(eos, n_eos))?));
        Ok(())
    })
}

/// # Safety
/// `factory` is null or a live handle, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_factory_free(factory: *mut PengGrammarFactory) {
    if !factory.is_null() {
        guard(std::ptr::null_mut(), || {
            drop(Box::from_raw(factory));
            Ok(())
        });
    }
}

/// Compiles a constraint; `kind` is "json_schema", "regex" or "lark".
///
/// # Safety
/// Live handle and valid pointers; `out` receives a handle for `peng_grammar_free`.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_new(
    factory: *const PengGrammarFactory,
    kind: PengStr,
    source: PengStr,
    out: *mut *mut PengGrammar,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || {
        *out = Box::into_raw(Box::new(compile(&*factory, &kind.text(), &source.text())?));
        Ok(())
    })
}

/// # Safety
/// `grammar` is null or a live handle, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_free(grammar: *mut PengGrammar) {
    if !grammar.is_null() {
        guard(std::ptr::null_mut(), || {
            drop(Box::from_raw(grammar));
            Ok(())
        });
    }
}

/// Writes one bit per logit row, 1 = allowed, into `words` (at least ceil(rows / 32) of them). When nothing but the
/// end may follow, only the end tokens are allowed.
///
/// # Safety
/// Live handle; `words` points to `n_words` writable words.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_mask(
    grammar: *mut PengGrammar,
    words: *mut u32,
    n_words: usize,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || {
        let g = &mut *grammar;
        if n_words < g.rows.div_ceil(32) {
            return Err(Failure::new("the mask buffer is too small"));
        }
        let mask = g.matcher.compute_mask_or_eos().map_err(|e| Failure::new(e.to_string()))?;
        let out = std::slice::from_raw_parts_mut(words, n_words);
        out.fill(0);
        for (to, from) in out.iter_mut().zip(mask.as_slice()) {
            *to = *from;
        }
        if g.rows % 32 != 0 {
            out[g.rows / 32] &= (1u32 << (g.rows % 32)) - 1;
        }
        Ok(())
    })
}

/// Advances over `ids`; fails if one of them is not allowed, and the constraint is then unusable.
///
/// # Safety
/// Live handle; `ids` points to `n` ids.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_accept(
    grammar: *mut PengGrammar,
    ids: *const u32,
    n: usize,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || (*grammar).matcher.consume_tokens(slice(ids, n)).map_err(|e| Failure::new(e.to_string())))
}

/// How many of `ids` could be accepted in a row; the state does not change. -1 on failure.
///
/// # Safety
/// Live handle; `ids` points to `n` ids.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_validate(
    grammar: *mut PengGrammar,
    ids: *const u32,
    n: usize,
    error: *mut PengBuf,
) -> i64 {
    let mut accepted = -1;
    guard(error, || {
        let n = (*grammar).matcher.validate_tokens(slice(ids, n)).map_err(|e| Failure::new(e.to_string()))?;
        accepted = n as i64;
        Ok(())
    });
    accepted
}

/// Takes back the last `n` accepted tokens.
///
/// # Safety
/// Live handle.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_rollback(grammar: *mut PengGrammar, n: usize, error: *mut PengBuf) -> i32 {
    guard(error, || (*grammar).matcher.rollback(n).map_err(|e| Failure::new(e.to_string())))
}

/// Bit 0: the text so far may end here. Bit 1: nothing more may follow.
///
/// # Safety
/// Live handle.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_state(grammar: *mut PengGrammar) -> i32 {
    let mut state = 0;
    guard(std::ptr::null_mut(), || {
        let m = &mut (*grammar).matcher;
        state = i32::from(m.is_accepting().unwrap_or(false)) | (i32::from(m.is_stopped()) << 1);
        Ok(())
    });
    state
}

/// A copy with a state of its own.
///
/// # Safety
/// Live handle; `out` receives a handle for `peng_grammar_free`.
#[no_mangle]
pub unsafe extern "C" fn peng_grammar_clone(
    grammar: *const PengGrammar,
    out: *mut *mut PengGrammar,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || {
        let g = &*grammar;
        *out = Box::into_raw(Box::new(PengGrammar { matcher: g.matcher.deep_clone(), rows: g.rows }));
        Ok(())
    })
}
