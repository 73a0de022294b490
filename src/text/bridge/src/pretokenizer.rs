// SPDX-License-Identifier: Apache-2.0
//! Pre-tokenization with patterns that say when they give up.
//!
//! The regular expressions of the `tokenizers` crate stop without a word after a million steps or characters on their
//! stack, and what is left of the text is taken for one word: other tokens than every other implementation gives. Nearly
//! all patterns of models need such an engine only for how they end; that end is written out here, and the rest takes
//! linear time and no stack. Other patterns run with more steps, and an error behind them.

use fancy_regex::{Regex, RegexBuilder};
use regex_automata::{meta, Input};
use tokenizers::pattern::{Invert, Pattern};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{Offsets, PreTokenizedString, PreTokenizer, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

use crate::abi::*;

/// Steps of one search. A step is some 20 ns, and a run of spaces or of characters that no branch takes needs up to ten
/// per character.
const MAX_STEPS: usize = 64_000_000;

/// What ByteLevel splits by when it is asked to split: GPT-2's pattern.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// How the patterns of GPT-2, Llama 3, Qwen and DeepSeek-V3 end: a run of space leaves its last character to the word
/// behind it.
const TAIL: &str = r"|\s+(?!\S)|\s+";

enum Step {
    Words { regex: Words, behavior: SplitDelimiterBehavior, invert: bool },
    Regex { regex: Regex, behavior: SplitDelimiterBehavior, invert: bool },
    PrefixSpace,
    Other(PreTokenizerWrapper),
}

struct Checked<'a>(&'a Regex);

impl Pattern for Checked<'_> {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let (mut pieces, mut end) = (Vec::new(), 0);
        for found in self.0.find_iter(inside) {
            let found = found.map_err(|e| format!("a pattern does not get through the text: {e}"))?;
            if end != found.start() {
                pieces.push(((end, found.start()), false));
            }
            pieces.push(((found.start(), found.end()), true));
            end = found.end();
        }
        if end != inside.len() {
            pieces.push(((end, inside.len()), false));
        }
        Ok(pieces)
    }
}

/// A pattern that ends in TAIL: the alternatives before it, and a run of space if none of them matches.
struct Words(meta::Regex);

impl Words {
    fn new(pattern: &str) -> Option<Words> {
        let regex = meta::Regex::new_many(&[pattern.strip_suffix(TAIL)?, r"\s+"]).ok()?;
        (!regex.is_match("")).then_some(Words(regex))
    }
}

impl Pattern for &Words {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let (mut pieces, mut end) = (Vec::new(), 0);
        while let Some(found) = self.0.find(Input::new(inside).range(end..)) {
            let (start, mut stop) = (found.start(), found.end());
            if found.pattern().as_usize() == 1 && stop < inside.len() {
                let last = inside[start..stop].chars().next_back().map_or(0, char::len_utf8);
                if stop - last > start {
                    stop -= last;
                }
            }
            if end != start {
                pieces.push(((end, start), false));
            }
            pieces.push(((start, stop), true));
            end = stop;
        }
        if end != inside.len() {
            pieces.push(((end, inside.len()), false));
        }
        Ok(pieces)
    }
}

impl Step {
    fn regex(pattern: &str, behavior: SplitDelimiterBehavior, invert: bool) -> Outcome<Step> {
        if let Some(regex) = Words::new(pattern) {
            return Ok(Step::Words { regex, behavior, invert });
        }
        let regex = RegexBuilder::new(pattern).backtrack_limit(MAX_STEPS).build();
        let regex = regex.map_err(|e| Failure::new(format!("pre_tokenizer: {e}")))?;
        Ok(Step::Regex { regex, behavior, invert })
    }

    fn run(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        match self {
            Step::Words { regex, behavior, invert: true } => text.split(|_, part| part.split(Invert(regex), *behavior)),
            Step::Words { regex, behavior, invert: false } => text.split(|_, part| part.split(regex, *behavior)),
            Step::Regex { regex, behavior, invert: true } => {
                text.split(|_, part| part.split(Invert(Checked(regex)), *behavior))
            }
            Step::Regex { regex, behavior, invert: false } => {
                text.split(|_, part| part.split(Checked(regex), *behavior))
            }
            Step::PrefixSpace => text.split(|_, mut part| {
                if !part.get().starts_with(' ') {
                    part.prepend(" ");
                }
                Ok(vec![part])
            }),
            Step::Other(other) => other.pre_tokenize(text),
        }
    }
}

fn add_steps(of: &PreTokenizerWrapper, steps: &mut Vec<Step>) -> Outcome<()> {
    match of {
        PreTokenizerWrapper::Sequence(list) => {
            for each in list.as_ref() {
                add_steps(each, steps)?;
            }
        }
        PreTokenizerWrapper::Split(Split { pattern: SplitPattern::Regex(pattern), behavior, invert, .. }) => {
            steps.push(Step::regex(pattern, *behavior, *invert)?)
        }
        PreTokenizerWrapper::ByteLevel(level) if level.use_regex => {
            if level.add_prefix_space {
                steps.push(Step::PrefixSpace);
            }
            steps.push(Step::regex(GPT2, SplitDelimiterBehavior::Isolated, false)?);
            steps.push(Step::Other(ByteLevel::new(false, level.trim_offsets, false).into()));
        }
        other => steps.push(Step::Other(other.clone())),
    }
    Ok(())
}

/// What a tokenizer does to a text between its normalizer and its model.
pub struct Steps(Vec<Step>);

impl Steps {
    pub fn of(tokenizer: &Tokenizer) -> Outcome<Steps> {
        let mut steps = Vec::new();
        if let Some(pre) = tokenizer.get_pre_tokenizer() {
            add_steps(pre, &mut steps)?;
        }
        Ok(Steps(steps))
    }

    pub fn run(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        self.0.iter().try_for_each(|step| step.run(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_gives_up_is_an_error() {
        let regex = RegexBuilder::new(r"\s+(?!\S)|\s*[\r\n]+").backtrack_limit(100).build().unwrap();
        assert!(Checked(&regex).find_matches(&" ".repeat(50)).is_ok());
        assert!(Checked(&regex).find_matches(&("x".repeat(500) + "  y")).is_err());
    }

    #[test]
    fn words_are_those_of_the_pattern() {
        let exact = Regex::new(GPT2).unwrap();
        let fast = Words::new(GPT2).unwrap();
        let alphabet =
            [" ", "  ", "\n", "\r\n", "\t", "\u{3000}", "a", "B", "é", "7", "!", "'s", "'", "\u{200b}", "中"];
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..(state >> 33) % 12 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                text.push_str(alphabet[(state >> 40) as usize % alphabet.len()]);
            }
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (ours, theirs) = ((&fast).find_matches(&text).unwrap(), Checked(&exact).find_matches(&text).unwrap());
            assert_eq!(ours, theirs, "{text:?}");
        }
    }

    #[test]
    fn patterns_that_end_otherwise_are_not_words() {
        assert!(Words::new(r"\p{L}+|\s+").is_none());
        assert!(Words::new(r"(?:a|\s+(?!\S)|\s+").is_none());
        assert!(Words::new(r"(?<=a)b|\s+(?!\S)|\s+").is_none());
        assert!(Words::new(r"x*|\s+(?!\S)|\s+").is_none());
    }

    #[test]
    fn gpt2_splits_as_the_crate_does() {
        let text = " it's  12 \u{200b}\u{200b}x\n\n y  ";
        let of_crate = ByteLevel::new(true, true, true);
        let mut steps = Vec::new();
        add_steps(&of_crate.into(), &mut steps).ok().unwrap();
        let (mut ours, mut theirs) = (PreTokenizedString::from(text), PreTokenizedString::from(text));
        Steps(steps).run(&mut ours).unwrap();
        of_crate.pre_tokenize(&mut theirs).unwrap();
        assert_eq!(ours, theirs);
    }
}
