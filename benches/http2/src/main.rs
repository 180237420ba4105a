//! One closed loop over three implementations of HTTP/2: one thread, one socket, a fixed number of gRPC inferences
//! outstanding. `http2-comparison ours|h2|nghttp2 HOST:PORT OUTSTANDING SECONDS` prints requests per second and
//! processor time per request in microseconds. All three read into the same buffer, write once everything received has
//! been processed, and check every answer: HTTP status 200, a message, gRPC status 0.

mod h2_crate;
mod nghttp2;
mod ours;

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

/// Before anything is measured.
const WARM_UP: Duration = Duration::from_millis(300);
/// Bytes that one read may bring.
const BUFFER: usize = 256 << 10;

/// A request, which is the same each time.
pub struct Call {
    /// `host:port`.
    pub authority: String,
    /// The path of the method.
    pub path: &'static str,
    /// The message with gRPC's prefix.
    pub body: Vec<u8>,
}

/// The client's side of a connection, without its socket.
pub trait Session {
    /// Begins a request in a slot.
    fn submit(&mut self, slot: usize);

    /// Takes bytes of the server; slots whose requests have succeeded go to `done`.
    fn receive(&mut self, bytes: &[u8], done: &mut Vec<usize>);

    /// Writes what waits, as far as the socket takes it. Whether all of it has left.
    fn write(&mut self, socket: &TcpStream) -> bool;
}

/// An inference of Triton's native identity model, FP32 `[1, 16]`.
fn call(authority: &str) -> Call {
    fn field(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag << 3 | 2, content.len() as u8], content].concat()
    }
    let tensor = [field(1, b"INPUT0"), field(2, b"FP32"), field(3, &[1, 16])].concat();
    let message = [field(1, b"identity_fp32"), field(5, &tensor), field(7, &[0; 64])].concat();
    let body = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
    Call { authority: authority.to_owned(), path: "/inference.GRPCInferenceService/ModelInfer", body }
}

/// What stands between a socket's buffer and an answer to a write: whether all of `bytes` has left.
pub fn write_all_now(mut socket: &TcpStream, bytes: &mut Vec<u8>) -> bool {
    use std::io::Write;
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(count) => drop(bytes.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("the connection broke: {error}"),
        }
    }
    true
}

fn processor_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the whole struct where it answers 0.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Keeps `outstanding` requests outstanding for so long; how many were answered.
fn drive(session: &mut dyn Session, socket: &TcpStream, free: &mut Vec<usize>, length: Duration) -> u64 {
    let (end, mut answered) = (Instant::now() + length, 0);
    let (mut buffer, mut done) = (vec![0; BUFFER], Vec::new());
    while Instant::now() < end {
        free.drain(..).for_each(|slot| session.submit(slot));
        let left = session.write(socket);
        let interest = if left { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        match (&mut &*socket).read(&mut buffer) {
            Ok(0) => panic!("the server hung up"),
            Ok(count) => session.receive(&buffer[..count], &mut done),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(socket, interest)], None).expect("a socket can be waited for");
            }
            Err(error) => panic!("the connection broke: {error}"),
        }
        answered += done.len() as u64;
        free.append(&mut done);
    }
    answered
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [which, address, outstanding, seconds] = &arguments[..] else {
        panic!("http2-comparison ours|h2|nghttp2 HOST:PORT OUTSTANDING SECONDS");
    };
    let (outstanding, seconds): (usize, f64) = (outstanding.parse().unwrap(), seconds.parse().unwrap());
    let socket = TcpStream::connect(address).expect("a server listens");
    socket.set_nodelay(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    let call = call(address);
    let mut session: Box<dyn Session> = match which.as_str() {
        "ours" => Box::new(ours::Ours::new(&call)),
        "h2" => Box::new(h2_crate::Crate::new(&call, outstanding)),
        "nghttp2" => Box::new(nghttp2::Library::new(&call)),
        other => panic!("'{other}' is none of ours, h2, nghttp2"),
    };
    let mut free: Vec<usize> = (0..outstanding).collect();
    drive(&mut *session, &socket, &mut free, WARM_UP);
    let (began, spent) = (Instant::now(), processor_time());
    let answered = drive(&mut *session, &socket, &mut free, Duration::from_secs_f64(seconds));
    let (took, spent) = (began.elapsed().as_secs_f64(), (processor_time() - spent).as_secs_f64());
    assert!(answered > 0, "no request was answered");
    println!("{:.1} {:.3}", answered as f64 / took, spent * 1e6 / answered as f64);
}
