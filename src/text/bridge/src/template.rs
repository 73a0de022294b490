// SPDX-License-Identifier: Apache-2.0
//! Chat templates: Jinja2 as Hugging Face's transformers sets it up.

use std::ffi::CString;
use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State};

use crate::abi::*;
use crate::pyjson::tojson;

pub struct PengTemplate {
    env: Environment<'static>,
}

const NAME: &str = "chat_template";
/// Steps a rendering may take, plus one per byte of its input. One step is about one instruction or 64 bytes made.
const FUEL: u64 = 4_000_000;

/// Marks an error that the template itself raised.
#[derive(Debug)]
struct Raised;

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("raised by the template")
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_string()).with_source(Raised))
}

/// The local time in a strftime format.
fn strftime_now(format: String) -> Result<String, Error> {
    let bad = || Error::new(ErrorKind::InvalidOperation, "strftime_now: bad format");
    let format = CString::new(format).map_err(|_| bad())?;
    let mut text = vec![0u8; 1024];
    // SAFETY: `tm` is filled by localtime_r before use, and strftime writes at most text.len() bytes.
    let written = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut tm).is_null() {
            return Err(bad());
        }
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &tm)
    };
    text.truncate(written);
    String::from_utf8(text).map_err(|_| bad())
}

fn from_json(text: String) -> Result<Value, Error> {
    serde_json::from_str::<serde_json::Value>(&text)
        .map(|v| Value::from(Serde(v)))
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("from_json: {e}")))
}

/// `{% generation %}` only marks what training may learn from: it becomes a block without effect.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let word = tag[2..end].trim_matches(['-', '+']).trim();
        match word {
            "generation" => out.push_str(&tag[..end + 2].replace(word, "if true")),
            "endgeneration" => out.push_str(&tag[..end + 2].replace(word, "endif")),
            _ => out.push_str(&tag[..end + 2]),
        }
        rest = &tag[end + 2..];
    }
    out.push_str(rest);
    out
}

fn failure(error: &Error) -> Failure {
    let detail = error.detail().map(str::to_string).unwrap_or_else(|| error.kind().to_string());
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<Raised>() {
            return Failure { status: RAISED, message: detail };
        }
        source = inner.source();
    }
    let place = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let kind = error.kind();
    let message = if detail == kind.to_string() { detail } else { format!("{kind}: {detail}") };
    Failure::new(format!("{place}{message}"))
}

/// What is a generator in Jinja2: it can be walked and joined, but has no JSON.
fn generator(state: &mut State, filter: &str, args: &[Value]) -> Result<Value, Error> {
    let found: Vec<Value> = state.apply_filter(filter, args)?.try_iter()?.collect();
    Ok(Value::make_iterable(move || found.clone().into_iter()))
}

fn add_generators(env: &mut Environment<'static>) {
    use minijinja::filters;
    env.add_filter("list of map", filters::map);
    env.add_filter("list of select", filters::select);
    env.add_filter("list of selectattr", filters::selectattr);
    env.add_filter("list of reject", filters::reject);
    env.add_filter("list of rejectattr", filters::rejectattr);
    for name in ["map", "select", "selectattr", "reject", "rejectattr"] {
        let of_list = format!("list of {name}");
        env.add_filter(name, move |state: &mut State, args: Rest<Value>| generator(state, &of_list, &args));
    }
}

fn compile(source: &str) -> Outcome<PengTemplate> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    env.set_syntax(syntax.map_err(|e| failure(&e))?);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    add_generators(&mut env);
    env.add_filter("tojson", tojson);
    env.add_filter("from_json", from_json);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env.add_template_owned(NAME, without_generation_tags(source)).map_err(|e| failure(&e))?;
    Ok(PengTemplate { env })
}

fn render(template: &PengTemplate, context: &[u8]) -> Outcome<String> {
    let values: serde_json::Value =
        serde_json::from_slice(context).map_err(|e| Failure::new(format!("context: {e}")))?;
    let mut env = template.env.clone();
    env.set_fuel(Some(FUEL + context.len() as u64));
    let compiled = env.get_template(NAME).map_err(|e| failure(&e))?;
    compiled.render(Value::from(Serde(values))).map_err(|e| failure(&e))
}

/// # Safety
/// Pointers are valid; `out` receives a handle for `peng_template_free`.
#[no_mangle]
pub unsafe extern "C" fn peng_template_new(source: PengStr, out: *mut *mut PengTemplate, error: *mut PengBuf) -> i32 {
    guard(error, || {
        *out = Box::into_raw(Box::new(compile(&source.text())?));
        Ok(())
    })
}

/// # Safety
/// `template` is null or a live handle, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn peng_template_free(template: *mut PengTemplate) {
    if !template.is_null() {
        guard(std::ptr::null_mut(), || {
            drop(Box::from_raw(template));
            Ok(())
        });
    }
}

/// Renders with the members of the JSON object `context` as variables.
///
/// # Safety
/// Live handle and valid pointers. May be called from several threads at once.
#[no_mangle]
pub unsafe extern "C" fn peng_template_render(
    template: *const PengTemplate,
    context: PengStr,
    out: *mut PengBuf,
    error: *mut PengBuf,
) -> i32 {
    guard(error, || {
        store(out, render(&*template, context.bytes())?.into_bytes());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(source: &str, context: &str) -> Result<String, String> {
        let template = compile(source).map_err(|f| f.message)?;
        render(&template, context.as_bytes()).map_err(|f| f.message)
    }

    #[test]
    fn generation_tags_have_no_effect() {
        assert_eq!(rendered("a {%- generation -%} b {% endgeneration %}c", "{}").unwrap(), "ab c");
    }

    #[test]
    fn loops_without_end_run_out_of_fuel() {
        let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}\
                      {% endfor %}{% endfor %}{% endfor %}";
        assert!(rendered(source, "{}").unwrap_err().contains("fuel"));
        let doubling = "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}\
                        {% endfor %}{{ ns.x }}";
        assert!(rendered(doubling, "{}").unwrap_err().contains("fuel"));
        assert!(rendered("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{}").is_err());
    }

    #[test]
    fn what_is_lazy_in_jinja_has_no_json() {
        let items = r#"{"x": [{"a": 1, "b": ""}, {"a": 2, "b": "c"}]}"#;
        for lazy in ["x|map(attribute='a')", "x|selectattr('b')|map(attribute='a')", "[1, 2]|reject('odd')", "[1]|select"] {
            let error = rendered(&format!("{{{{ {lazy}|tojson }}}}"), items).unwrap_err();
            assert!(error.contains("Object of type generator is not JSON serializable"), "{error}");
        }
        let walked = "{{ x|map(attribute='a')|list|tojson }}{{ x|map(attribute='b')|join('-') }}{{ x|rejectattr('b')|first }}\
                      {% for v in [1, 2, 3]|select('odd') %}{{ v }}{{ loop.last }}{% endfor %}";
        assert_eq!(rendered(walked, items).unwrap(), r#"[1, 2]-c{"a": 1, "b": ""}1false3true"#);
    }

    #[test]
    fn raised_errors_carry_the_templates_words() {
        let template = compile("{{ raise_exception('no ' ~ x) }}").ok().unwrap();
        let f = render(&template, br#"{"x": "tools"}"#).unwrap_err();
        assert_eq!((f.status, f.message.as_str()), (RAISED, "no tools"));
    }
}
