//! A model that is loaded, but not ready. From 25.12 on a backend may say so for a while
//! (`TRITONBACKEND_ModelInstanceReady`, in Python `is_ready()`); clients learn no more than that.

/// Why such a model takes no requests, as far as a client can know.
pub const UNREADY: &str = "it is loaded, but its backend says that it is not ready; the server's log has the reason \
    with --log-verbose 1";
