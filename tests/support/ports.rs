//! Free ports for servers that are started with port numbers.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which the system gives ports to clients; each test process begins at a place of its own, because
/// a port that was found free is not held until the server has it.
const FIRST: u16 = 16_384;
const COUNT: u16 = 16_000;
const PER_PROCESS: u32 = 16;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// So many different ports that nobody listens on.
pub fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

fn free_port() -> u16 {
    let first = (process::id().wrapping_mul(PER_PROCESS) % u32::from(COUNT)) as u16;
    loop {
        let port = FIRST + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
