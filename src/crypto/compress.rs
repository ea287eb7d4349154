//! zstd around a sealed body: only where it pays, and never more out than a record may hold.

use std::{cell::RefCell, io::Cursor};

use zeroize::Zeroizing;
use zstd::{bulk, zstd_safe};

/// Below this a frame's own bytes eat what it saves.
const MIN_LEN: usize = 256;
const LEVEL: i32 = 1;

thread_local! {
    // A context costs far more to set up than a record costs to compress.
    static COMPRESSOR: RefCell<Option<bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends the compressed `plaintext` to `out` if that saves a tenth; otherwise leaves `out` as it was and says `false`.
pub(super) fn append_compressed(plaintext: &[u8], max: usize, out: &mut Vec<u8>) -> bool {
    if plaintext.len() < MIN_LEN || plaintext.len() > max {
        return false;
    }
    let start = out.len();
    let worth = plaintext.len() - plaintext.len().div_ceil(10);
    out.reserve(worth);
    let written = COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = bulk::Compressor::new(LEVEL).ok();
        }
        let mut cursor = Cursor::new(&mut *out);
        cursor.set_position(start as u64);
        // Fails when it does not fit: that is the answer "not worth it".
        slot.as_mut()?.compress_to_buffer(plaintext, &mut cursor).ok()
    });
    // The capacity of `out`, which bounds zstd, may be larger than what was reserved.
    let worthwhile = written.is_some_and(|written| written <= worth);
    out.truncate(if worthwhile { start + written.unwrap_or(0) } else { start });
    worthwhile
}

/// Decompresses one whole frame that says its size and whose size is at most `max`.
pub(super) fn decompress(frame: &[u8], max: usize) -> Option<Zeroizing<Vec<u8>>> {
    if zstd_safe::find_frame_compressed_size(frame).ok()? != frame.len() {
        return None;
    }
    let size = usize::try_from(zstd_safe::get_frame_content_size(frame).ok()??).ok()?;
    if size > max {
        return None;
    }
    let mut plaintext = Zeroizing::new(Vec::with_capacity(size));
    let written = DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = bulk::Decompressor::new().ok();
        }
        slot.as_mut()?.decompress_to_buffer(frame, &mut *plaintext).ok()
    })?;
    (written == size && plaintext.len() == size).then_some(plaintext)
}
