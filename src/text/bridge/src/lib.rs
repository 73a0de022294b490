// SPDX-License-Identifier: Apache-2.0
//! C ABI over the tokenizer, chat template and constrained decoding crates; `bridge.h` is its C declaration.
//!
//! Every entry point runs inside `guard`: a panic becomes an error message and never unwinds into C++.

pub mod abi;
mod gguf;
mod grammar;
mod pretokenizer;
mod pyjson;
mod template;
mod tokenizer;
