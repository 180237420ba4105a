//! Between a client and its server: distance, which delays all traffic, keeps its order and does not limit its bandwidth;
//! a count of connections; and connections that break at certain requests.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// `host:port` at which `server` answers `each_way` later in both directions. It is there until the test ends.
pub fn far_away(server: &str, each_way: Duration) -> String {
    relay(server, move |client, server| {
        pass(client.try_clone().unwrap(), server.try_clone().unwrap(), each_way);
        pass(server, client, each_way);
    })
}

/// `host:port` at which `server` answers, and how many connections there were.
pub fn counted(server: &str) -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    let here = relay(server, move |client, server| {
        counting.fetch_add(1, Ordering::SeqCst);
        pass(client.try_clone().unwrap(), server.try_clone().unwrap(), Duration::ZERO);
        pass(server, client, Duration::ZERO);
    });
    (here, count)
}

/// `host:port` at which `server` answers, but for requests of which `breaks` says yes: those break their connection.
pub fn breaking(server: &str, breaks: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> String {
    let breaks = Arc::new(breaks);
    relay(server, move |client, server| {
        pass(server.try_clone().unwrap(), client.try_clone().unwrap(), Duration::ZERO);
        let breaks = Arc::clone(&breaks);
        thread::spawn(move || pass_unless(&*breaks, &client, &server));
    })
}

/// Says yes to requests with `path` that come after the first inference.
pub fn once_measured(path: &'static str) -> impl Fn(&[u8]) -> bool {
    let is_measured = AtomicBool::new(false);
    let holds = |piece: &[u8], text: &str| piece.windows(text.len()).any(|part| part == text.as_bytes());
    move |piece| {
        is_measured.fetch_or(holds(piece, "/infer "), Ordering::Relaxed);
        is_measured.load(Ordering::Relaxed) && holds(piece, path)
    }
}

/// Listens, and has `join` bring every connection together with one of the server's.
fn relay(server: &str, join: impl Fn(TcpStream, TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, server) = (listener.local_addr().unwrap().to_string(), server.to_owned());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&server) else { continue };
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            join(client, server);
        }
    });
    here
}

/// Passes on what comes, until a piece breaks the connection.
fn pass_unless(breaks: &impl Fn(&[u8]) -> bool, mut from: &TcpStream, mut to: &TcpStream) {
    let mut piece = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        if breaks(&piece[..count]) || to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Passes on what comes, each piece so long after it came.
fn pass(mut from: TcpStream, mut to: TcpStream, after: Duration) {
    let (send, sent) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            if send.send((Instant::now() + after, piece[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, piece) in sent {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}
