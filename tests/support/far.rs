//! A distant server: delays all traffic, keeps its order and does not limit its bandwidth.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// `host:port` at which `server` answers `each_way` later in both directions. It is there until the test ends.
pub fn far_away(server: &str, each_way: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, server) = (listener.local_addr().unwrap().to_string(), server.to_owned());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&server) else { continue };
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            pass(client.try_clone().unwrap(), server.try_clone().unwrap(), each_way);
            pass(server, client, each_way);
        }
    });
    here
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
