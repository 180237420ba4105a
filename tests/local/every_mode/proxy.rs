//! A proxy in front of a server, which adds TLS and cuts connections on request.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long it reads from one side before it turns to the other.
const TURN: Duration = Duration::from_millis(1);

trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

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
                for side in [&near, &far] {
                    side.set_nodelay(true).unwrap();
                    side.set_read_timeout(Some(TURN)).unwrap();
                }
                let near: Box<dyn Both> = match &tls {
                    None => Box::new(near),
                    Some(config) => {
                        Box::new(StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), near))
                    }
                };
                thread::spawn(move || relay(near, far));
            }
        });
        proxy
    }

    /// `host:port`.
    pub fn url(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Carries bytes both ways until a side has ended.
fn relay(mut near: Box<dyn Both>, mut far: TcpStream) {
    while carry(&mut near, &mut far).is_ok() && carry(&mut far, &mut near).is_ok() {}
}

fn carry(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = [0; 16 << 10];
    match from.read(&mut bytes) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => to.write_all(&bytes[..count]).and_then(|()| to.flush()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
        Err(error) => Err(error),
    }
}
