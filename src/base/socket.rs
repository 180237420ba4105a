//! What the kernel knows of a socket.

use std::os::fd::{AsRawFd, BorrowedFd};

/// How many bytes that were written to a socket its peer's kernel has not acknowledged; `None` where the system does not tell.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> Option<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as it is borrowed, and this request writes one int to where it is told.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    (status == 0).then(|| usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_written_after_the_peer_has_closed_is_never_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        socket.write_all(b"read").unwrap();
        peer.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(unacknowledged(socket.as_fd()), Some(0));
        drop(peer);
        thread::sleep(Duration::from_millis(20));
        socket.write_all(b"too late").unwrap();
        thread::sleep(Duration::from_millis(20));
        assert_eq!((socket.read(&mut [0; 4]).unwrap(), unacknowledged(socket.as_fd())), (0, Some(8)));
    }
}
