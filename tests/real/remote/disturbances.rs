//! Processor time that others take from a server on this machine. The server is another process, but not itself a
//! disturbance.

use super::{PROTOCOLS, figure};
use crate::support::hog::{Hog, processors};
use crate::support::{Model, Repository, TritonServer};

#[test]
fn timed_hogs_beside_a_server_on_this_machine_are_seen() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    // The server may run on any of them.
    let _hogs: Vec<Hog> = processors().into_iter().map(Hog::on).collect();
    for protocol in PROTOCOLS {
        let report = server.program(protocol, "m").quick().args("-p 500").run().report();
        assert!(report.level().text.contains("  Disturbed: 3 of 3 windows; "), "{protocol}: {}", report.text);
        assert!(figure(&report.text, "other processes used") >= 20.0, "{protocol}: {}", report.text);
    }
}
