//! What the machine does without any server: the bounds that studies of memory and transports are read against.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::result::bare::BareCopies;

/// Copies are repeated for this long; the fastest counts, since a bound is what cannot be beaten.
const TIME: Duration = Duration::from_millis(30);
/// Fewest repetitions.
const LEAST: usize = 3;
/// Short copies are timed together, for at least about this long.
const TIMED_NS: f64 = 20_000.0;
/// Tensors above this size are not copied: they might not fit twice.
const MOST_BYTES: u64 = 1 << 30;

/// Copies `input` bytes in memory, and for `output` exchanges both over a connection. None if there is nothing to copy, or
/// too much.
pub fn measure(input: u64, output: Option<u64>) -> Option<BareCopies> {
    if input == 0 || input.max(output.unwrap_or(0)) > MOST_BYTES {
        return None;
    }
    let length = usize::try_from(input).ok()?;
    let loopback = |output: u64| exchange(length, usize::try_from(output).ok()?).ok();
    Some(BareCopies { memcpy_ns: copy(length), loopback_ns: output.and_then(loopback) })
}

fn copy(length: usize) -> f64 {
    let (from, mut to) = (vec![1_u8; length], vec![2_u8; length]);
    let mut time_per_copy = |times: usize| {
        let began = Stamp::now();
        for _ in 0..times {
            black_box(&mut to[..]).copy_from_slice(black_box(&from));
        }
        (Stamp::now() - began).as_nanos() as f64 / times as f64
    };
    time_per_copy(1);
    let times = (TIMED_NS / time_per_copy(LEAST).max(1.0)).clamp(1.0, TIMED_NS) as usize;
    fastest(|| Ok(time_per_copy(times))).unwrap_or(f64::NAN)
}

/// The fastest of repetitions.
fn fastest(mut measure: impl FnMut() -> io::Result<f64>) -> io::Result<f64> {
    let (until, mut best) = (Stamp::now().plus_duration(TIME), f64::INFINITY);
    for number in 0.. {
        if number >= LEAST && Stamp::now() >= until {
            break;
        }
        best = best.min(measure()?);
    }
    Ok(best)
}

fn exchange(input: usize, output: usize) -> io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    let peer = thread::Builder::new().name("loopback".to_owned()).spawn(move || answer(there, input, output))?;
    let (request, mut reply) = (vec![1_u8; input], vec![0_u8; output]);
    let best = fastest(|| {
        let began = Stamp::now();
        here.write_all(&request)?;
        here.read_exact(&mut reply)?;
        Ok((Stamp::now() - began).as_nanos() as f64)
    });
    // Its end of file ends the other thread.
    drop(here);
    let _ = peer.join();
    best
}

fn answer(mut there: TcpStream, input: usize, output: usize) {
    let (mut request, reply) = (vec![0_u8; input], vec![1_u8; output]);
    while there.read_exact(&mut request).is_ok() && there.write_all(&reply).is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_longer_where_there_is_more_to_copy() {
        let [small, large] = [64, 4 << 20].map(|bytes| measure(bytes, Some(bytes)).unwrap());
        assert!(small.memcpy_ns > 0.0 && large.memcpy_ns > 20.0 * small.memcpy_ns, "{small:?} {large:?}");
        let exchanged = |copies: BareCopies| copies.loopback_ns.unwrap();
        assert!(exchanged(small) > small.memcpy_ns && exchanged(large) > exchanged(small), "{small:?} {large:?}");
        assert!(exchanged(large) > large.memcpy_ns);
    }

    #[test]
    fn nothing_and_too_much_are_not_copied() {
        assert_eq!(measure(0, None), None);
        assert_eq!(measure(MOST_BYTES + 1, None), None);
        assert_eq!(measure(1, Some(MOST_BYTES + 1)), None);
        assert_eq!(measure(8, None).unwrap().loopback_ns, None);
    }
}
