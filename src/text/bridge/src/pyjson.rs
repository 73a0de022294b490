// SPDX-License-Identifier: Apache-2.0
//! JSON text exactly as Python's json.dumps writes it: templates and models were made with it.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

struct Style {
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    ensure_ascii: bool,
    sort_keys: bool,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// repr() of a float: shortest digits, exponents from 1e16 on and below 1e-4.
pub fn float_text(v: f64) -> String {
    if v.is_nan() {
        return "NaN".into();
    }
    if v.is_infinite() {
        return if v > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let scientific = format!("{v:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if v != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{v:?}")
}

fn write_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ensure_ascii && (c as u32) > 0x7e) => {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_string()),
        ValueKind::Number | ValueKind::Bool | ValueKind::None => scalar_text(key),
        kind => Err(invalid(format!("keys must be str, int, float, bool or None, not {kind}"))),
    }
}

fn scalar_text(v: &Value) -> Result<String, Error> {
    Ok(match v.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => if v.is_true() { "true" } else { "false" }.into(),
        ValueKind::Number if v.is_integer() => v.to_string(),
        ValueKind::Number => float_text(f64::try_from(v.clone())?),
        kind => return Err(invalid(format!("Object of type {kind} is not JSON serializable"))),
    })
}

impl Style {
    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_items<T>(
        &self,
        out: &mut String,
        brackets: (char, char),
        items: Vec<T>,
        depth: usize,
        mut write: impl FnMut(&mut String, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(brackets.0);
        let empty = items.is_empty();
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item_separator);
            }
            self.line(out, depth + 1);
            write(out, item)?;
        }
        if !empty {
            self.line(out, depth);
        }
        out.push(brackets.1);
        Ok(())
    }

    fn write(&self, out: &mut String, v: &Value, depth: usize) -> Result<(), Error> {
        if depth > 128 {
            return Err(invalid("the value is nested too deeply for JSON"));
        }
        match v.kind() {
            ValueKind::String => write_string(out, v.as_str().unwrap_or_default(), self.ensure_ascii),
            ValueKind::Seq => {
                let items: Vec<Value> = v.try_iter()?.collect();
                self.write_items(out, ('[', ']'), items, depth, |out, item| self.write(out, &item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut members = Vec::new();
                for key in v.try_iter()? {
                    members.push((key_text(&key)?, v.get_item(&key)?));
                }
                if self.sort_keys {
                    members.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.write_items(out, ('{', '}'), members, depth, |out, (key, value)| {
                    write_string(out, &key, self.ensure_ascii);
                    out.push_str(&self.key_separator);
                    self.write(out, &value, depth + 1)
                })?;
            }
            ValueKind::Iterable => return Err(invalid("Object of type generator is not JSON serializable")),
            _ => out.push_str(&scalar_text(v)?),
        }
        Ok(())
    }
}

fn indent_text(v: &Value) -> Result<Option<String>, Error> {
    if v.is_none() {
        return Ok(None);
    }
    match v.as_str() {
        Some(text) => Ok(Some(text.to_string())),
        // More than any writer uses; keeps a hostile template from asking for a gigabyte.
        None => Ok(Some(" ".repeat(usize::try_from(v.clone())?.min(64)))),
    }
}

/// The tojson filter of chat templates: json.dumps with ensure_ascii off, and no HTML escapes.
pub fn tojson(value: Value, args: Kwargs) -> Result<Value, Error> {
    let indent = match args.get::<Option<Value>>("indent")? {
        Some(v) => indent_text(&v)?,
        None => None,
    };
    let separators: Option<Vec<String>> = args.get("separators")?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(invalid("separators must be a pair")),
        None if indent.is_some() => (",".to_string(), ": ".to_string()),
        None => (", ".to_string(), ": ".to_string()),
    };
    let style = Style {
        indent,
        item_separator: item,
        key_separator: key,
        ensure_ascii: args.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: args.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    args.assert_all_used()?;
    let mut out = String::new();
    style.write(&mut out, &value, 0)?;
    Ok(Value::from(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e15, "1000000000000000.0"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-0.0, "-0.0"),
            (1.5e300, "1.5e+300"),
        ] {
            assert_eq!(float_text(value), text);
        }
    }
}
