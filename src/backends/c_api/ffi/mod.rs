//! The border to `libtritonserver.so`: the only module of this backend with `unsafe` in it.
//!
//! Three levels: `sys` is generated from `wrapper.h`; [`status`] and [`library`] turn calls into checked ones;
//! [`Server`], `InferenceRequest` and [`Slots`] own what C handed out and are safe to use. No pointer leaves this
//! module.

mod allocator;
mod callbacks;
mod crash;
mod ending;
mod exchange;
mod exits;
mod forks;
mod hand_over;
mod library;
mod memory;
mod options;
mod output_buffer;
mod overrides;
mod prepared;
mod request;
mod response;
mod server;
mod shared;
mod shell;
mod slot;
mod slot_state;
mod slots;
#[cfg(not(any(sanitized, miri)))]
mod stacks;
mod start_log;
mod status;
mod sys;
mod trace_buffer;
mod tracing;

pub use crash::{has_crashed, name as crash_name, stop_crashes, watch_for_crashes};
pub use ending::{halt_servers, stop_servers};
pub use exchange::ExchangeTables;
pub use exits::{allow_exit, is_caught, watch_exits};
pub use forks::close_forks;
pub use server::{Server, is_loading};
pub use slots::{Slots, SlotsSpec};
