// SPDX-License-Identifier: Apache-2.0
//! Plain types that cross the C ABI, and the guard around every entry point.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

pub const OK: i32 = 0;
pub const FAILED: i32 = 1;
/// The template called raise_exception.
pub const RAISED: i32 = 2;

/// Borrowed bytes. `data` may be null when `size` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PengStr {
    pub data: *const u8,
    pub size: usize,
}

/// Owned bytes, released by `peng_buf_free`.
#[repr(C)]
pub struct PengBuf {
    pub data: *mut u8,
    pub size: usize,
    pub capacity: usize,
}

/// Owned token ids, released by `peng_ids_free`.
#[repr(C)]
pub struct PengIds {
    pub data: *mut u32,
    pub size: usize,
    pub capacity: usize,
}

impl PengStr {
    /// # Safety
    /// `data` points to `size` readable bytes that outlive `'a`.
    pub unsafe fn bytes<'a>(&self) -> &'a [u8] {
        slice(self.data, self.size)
    }

    /// The text with invalid UTF-8 replaced by U+FFFD.
    ///
    /// # Safety
    /// As `bytes`.
    pub unsafe fn text<'a>(&self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

/// # Safety
/// `data` points to `size` readable elements that outlive `'a`, or `size` is 0.
pub unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

/// # Safety
/// `out` is null or points to a buffer whose old content is released or absent.
pub unsafe fn store(out: *mut PengBuf, bytes: Vec<u8>) {
    if let Some(out) = out.as_mut() {
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        *out = PengBuf { data: bytes.as_mut_ptr(), size: bytes.len(), capacity: bytes.capacity() };
    }
}

/// # Safety
/// As `store`.
pub unsafe fn store_ids(out: *mut PengIds, ids: Vec<u32>) {
    if let Some(out) = out.as_mut() {
        let mut ids = std::mem::ManuallyDrop::new(ids);
        *out = PengIds { data: ids.as_mut_ptr(), size: ids.len(), capacity: ids.capacity() };
    }
}

pub struct Failure {
    pub status: i32,
    pub message: String,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Failure { status: FAILED, message: message.into() }
    }
}

pub type Outcome<T> = Result<T, Failure>;

fn silence_panics() {
    static ONCE: Once = Once::new();
    // The message travels in the error buffer; the default hook would print it to standard error as well.
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// Runs `body`; a failure or a panic goes to `error` and gives its status.
///
/// # Safety
/// `error` as in `store`.
pub unsafe fn guard(error: *mut PengBuf, body: impl FnOnce() -> Outcome<()>) -> i32 {
    silence_panics();
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return OK,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = match panic.downcast::<String>() {
                Ok(text) => *text,
                Err(panic) => match panic.downcast::<&'static str>() {
                    Ok(text) => text.to_string(),
                    Err(other) => {
                        // Not a payload of panic!: dropping it may panic again.
                        std::mem::forget(other);
                        "unknown".to_string()
                    }
                },
            };
            Failure::new(format!("internal error: {text}"))
        }
    };
    store(error, failure.message.into_bytes());
    failure.status
}

/// # Safety
/// `buf` is null or was filled by this library.
#[no_mangle]
pub unsafe extern "C" fn peng_buf_free(buf: *mut PengBuf) {
    if let Some(b) = buf.as_mut() {
        if !b.data.is_null() {
            drop(Vec::from_raw_parts(b.data, b.size, b.capacity));
        }
        *b = PengBuf { data: std::ptr::null_mut(), size: 0, capacity: 0 };
    }
}

/// # Safety
/// `ids` is null or was filled by this library.
#[no_mangle]
pub unsafe extern "C" fn peng_ids_free(ids: *mut PengIds) {
    if let Some(v) = ids.as_mut() {
        if !v.data.is_null() {
            drop(Vec::from_raw_parts(v.data, v.size, v.capacity));
        }
        *v = PengIds { data: std::ptr::null_mut(), size: 0, capacity: 0 };
    }
}
