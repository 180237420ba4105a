//! A proxy in front of a server, which adds TLS and cuts connections on request.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long it waits for the rest of a TLS record that has come in part.
const TURN: Duration = Duration::from_millis(1);

trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

/// How much is carried at once.
const PIECE: usize = 16 << 10;

/// A proxy; it runs until the test's process ends.
pub struct Proxy {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// A proxy of the server at `url`, with TLS if configured.
    pub fn of(url: String, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), open: Arc::default() };
        let open = Arc::clone(&proxy.open);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                open.lock().unwrap().push(near.try_clone().unwrap());
                let far = TcpStream::connect(&url).unwrap();
                let tls = tls.clone();
                thread::spawn(move || {
                    let socket = near.try_clone().unwrap();
                    if let Some(near) = decrypted(near, tls) {
                        relay(&socket, near, far);
                    }
                    let _ = socket.shutdown(Shutdown::Both);
                });
            }
        });
        proxy
    }

    /// `host:port`.
    pub fn url(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// How many connections it has had since they were last cut.
    pub fn connections(&self) -> usize {
        self.open.lock().unwrap().len()
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// What is within TLS, if configured; nothing if the handshake fails, as with clients that do not trust the server.
fn decrypted(mut near: TcpStream, tls: Option<Arc<ServerConfig>>) -> Option<Box<dyn Both>> {
    near.set_nodelay(true).unwrap();
    let session = match tls {
        None => None,
        Some(config) => {
            let mut session = ServerConnection::new(config).unwrap();
            session.complete_io(&mut near).ok()?;
            Some(session)
        }
    };
    near.set_read_timeout(Some(TURN)).unwrap();
    Some(match session {
        None => Box::new(near),
        Some(session) => Box::new(StreamOwned::new(session, near)),
    })
}

/// Carries bytes both ways until a side has ended; `socket` is the one below `near`.
fn relay(socket: &TcpStream, mut near: Box<dyn Both>, mut far: TcpStream) {
    far.set_nodelay(true).unwrap();
    // The last bytes of a handshake may have brought some already.
    if carry_all(&mut near, &mut far).is_err() {
        return;
    }
    loop {
        let mut sides = [PollFd::new(socket, PollFlags::IN), PollFd::new(&far, PollFlags::IN)];
        if poll(&mut sides, None).is_err() {
            continue;
        }
        let [from_near, from_far] = sides.map(|side| !side.revents().is_empty());
        if (from_near && carry_all(&mut near, &mut far).is_err()) || (from_far && carry(&mut far, &mut near).is_err()) {
            return;
        }
    }
}

/// A record of TLS that has been read may hold more than a piece, of which the socket knows nothing. Whoever waited for the end of what
/// comes would let the other side wait, too.
fn carry_all(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    while carry(from, to)? == PIECE {}
    Ok(())
}

/// Carries a piece; says how long it was.
fn carry(from: &mut impl Read, to: &mut impl Write) -> io::Result<usize> {
    let mut bytes = [0; PIECE];
    match from.read(&mut bytes) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => to.write_all(&bytes[..count]).and_then(|()| to.flush()).map(|()| count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(0),
        Err(error) => Err(error),
    }
}
