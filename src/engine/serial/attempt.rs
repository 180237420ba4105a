//! [`Attempt`]: a connection that is being made for a request that waits for it.

use std::io;
use std::os::fd::AsFd;

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::serial::common::Common;
use crate::{Connecting, Progress, Stream, closed, failure, wait_for};

/// A connection that is being made for a request that waits for it, if one is.
#[derive(Default)]
pub(super) struct Attempt(Option<Connecting>);

impl Attempt {
    /// Whether one is being made.
    pub(super) fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// Why the server cannot be reached.
    pub(super) fn begin(&mut self, common: &Common) -> Result<(), InferError> {
        if let Some(error) = common.known_unreachable() {
            return Err(error);
        }
        let begun = Connecting::start(&common.route.connector, Common::connect_by());
        self.0 = Some(begun.map_err(|error| common.unreachable(failure(&error)))?);
        Ok(())
    }

    /// Goes as far as it can without waiting; returns the connection once it is there. Until then the poller, if there is one,
    /// reports its socket as connection `number`.
    ///
    /// # Errors
    /// Why the server cannot be reached; nothing is under way any more.
    pub(super) fn proceed(&mut self, common: &Common, number: usize) -> Result<Option<Stream>, InferError> {
        let Some(connecting) = self.0.take() else { return Err(closed("while the request was sent")) };
        let progress =
            connecting.proceed(&common.route.connector).and_then(|progress| match (progress, &common.poller) {
                (Progress::Pending(further), Some(poller)) => {
                    poller.watch(&further, number, further.awaited()).map(|()| Progress::Pending(further))
                }
                (progress, _) => Ok(progress),
            });
        let reminded = progress.map_err(|error| failure(&error)).and_then(|progress| common.route.reminded(progress));
        match reminded.map_err(|error| common.unreachable(error))? {
            Progress::Pending(further) => {
                self.0 = Some(further);
                Ok(None)
            }
            Progress::Made(stream) => {
                common.note_reached();
                Ok(Some(stream))
            }
        }
    }

    /// When it goes on even if its socket is silent.
    pub(super) fn due(&self) -> Stamp {
        self.0.as_ref().map_or(Stamp::NEVER, Connecting::due)
    }

    /// Waits until it can go on, or `until` has passed; returns whether it can.
    ///
    /// # Errors
    /// As the system answers.
    pub(super) fn wait(&self, until: Stamp) -> io::Result<bool> {
        let Some(connecting) = &self.0 else { return Ok(false) };
        let ready = wait_for(Some(connecting.as_fd()), connecting.awaited(), until.min(connecting.due()))?;
        Ok(ready || connecting.due() <= Stamp::now())
    }

    /// Is not needed any more.
    pub(super) fn give_up(&mut self) {
        self.0 = None;
    }
}
