//! [`Parting`]: connections that nobody uses any more, until the server has ended the streams that had stayed open on them, too: to
//! one that is closed before, they are cancelled.

use std::time::Duration;

use super::MAX_READS;
use crate::Poller;
use crate::backend::InferError;
use crate::calls::socket::{Http2Socket, NoEvents};
use crate::calls::streams::InferStreams;
use crate::clock::Stamp;

/// How long a server may take to end its side of the streams.
const LIMIT: Duration = Duration::from_secs(1);
/// How many connections may be kept at a time.
const MOST: usize = 8;

/// The connections, on which our side of every stream has ended.
#[derive(Default)]
pub(super) struct Parting(Vec<PartingLine>);

/// One of them.
struct PartingLine {
    socket: Http2Socket,
    /// When it is closed.
    due: Stamp,
}

/// Ends our side of streams that have stayed open for many requests.
pub(super) fn finish(socket: &mut Http2Socket, streams: &InferStreams) {
    streams.numbers().for_each(|stream| socket.h2.finish(stream));
    // Should the connection be lost, nothing is lost with it.
    let _ = socket.flush(|_| ());
}

impl PartingLine {
    /// Reads what has arrived, which is nobody's.
    fn read(&mut self) -> Result<(), InferError> {
        self.socket.flush(|_| ())?;
        for _ in 0..MAX_READS {
            if !self.socket.fill()? {
                break;
            }
            self.socket.process(&mut NoEvents)?;
        }
        Ok(())
    }
}

impl Parting {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends our side of the streams of a connection that nobody uses any more.
    pub(super) fn add(&mut self, mut socket: Http2Socket, streams: &InferStreams) {
        finish(&mut socket, streams);
        if self.0.len() == MOST {
            self.0.remove(0).socket.shutdown();
        }
        self.0.push(PartingLine { socket, due: Stamp::now().plus_duration(LIMIT) });
    }

    /// Reads what has arrived, and closes connections that are over.
    pub(super) fn serve(&mut self) {
        let now = Stamp::now();
        self.0.retain_mut(|line| {
            let goes_on = now < line.due && line.read().is_ok() && line.socket.h2.open_streams() > 0;
            if !goes_on {
                line.socket.shutdown();
            }
            goes_on
        });
    }

    /// When one of them is closed, even if its socket is silent.
    pub(super) fn due(&self) -> Stamp {
        self.0.iter().map(|line| line.due).fold(Stamp::NEVER, Stamp::min)
    }

    /// Has the poller watch their sockets.
    ///
    /// # Errors
    /// If the system is out of watches.
    pub(super) fn watch(&self, poller: &Poller) -> std::io::Result<()> {
        self.0.iter().try_for_each(|line| poller.watch(&line.socket, 0, line.socket.interest()))
    }

    /// Closes all of them.
    pub(super) fn close(&mut self) {
        self.0.drain(..).for_each(|mut line| line.socket.shutdown());
    }
}
