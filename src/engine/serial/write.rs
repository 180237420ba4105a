//! Writes a request to a connection.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::time::Duration;

use crate::Stream;
use crate::clock::Stamp;
use crate::serial::{Dialogue, SLICES};

/// How long a blocking read or write waits before the deadline is checked again.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Writes the rest of a request, of which `written` bytes have been sent; for about [`TICK`], like a single blocking
/// write, because a server may take it piece by piece.
pub(super) fn write_out<D: Dialogue>(
    stream: &mut Stream,
    dialogue: &D,
    slot: usize,
    written: &mut usize,
    total: usize,
) -> io::Result<()> {
    let mut begun = None;
    while *written < total {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let used = dialogue.gather(slot, *written, &mut slices);
        match stream.write_vectored(&slices[..used]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if *written < total {
            let now = Stamp::now();
            if now - *begun.get_or_insert(now) >= TICK {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
    }
    stream.flush()
}

/// Fills `slices` with what follows the first `skip` bytes of the concatenated `parts`, as far as there is room. Returns
/// how many are used: [`Dialogue::gather`] of a request that lies in several places.
#[inline]
pub fn gather<'a>(
    parts: impl IntoIterator<Item = &'a [u8]>,
    mut skip: usize,
    slices: &mut [IoSlice<'a>; SLICES],
) -> usize {
    let mut used = 0;
    for part in parts {
        let left = part.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(part.len());
        if !left.is_empty() {
            slices[used] = IoSlice::new(left);
            used += 1;
            if used == SLICES {
                break;
            }
        }
    }
    used
}
