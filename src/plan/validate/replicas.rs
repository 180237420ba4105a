//! Rules of several servers.

use crate::Draft;
use crate::exit::Codes;
use crate::validate::facts::{named, shown_urls};
use crate::validate::{Rule, made, rule};

/// Rules of several servers.
pub(super) const RULES: &[Rule] = &[
    rule(
        |draft| are_several(draft) && draft.plan.matrix.is_none() && !draft.plan.target.service.is_remote(),
        "{-u...}: requests are spread over servers on the network only: leave out all but one, or use --service-kind \
         triton",
    ),
    made(|draft| {
        let (flags, urls) = (named(draft.given.which(|flag| flag.one_server))?, shown_urls(draft));
        are_several(draft).then(|| {
            format!(
                "{flags} is for one server, but {urls} names several: leave it out, or measure each server by itself"
            )
        })
    }),
    made(|draft| {
        let (pages, servers) = (draft.given.values("--metrics-url").count(), draft.plan.target.connections().count());
        let is_wrong = draft.codes == Codes::Own && pages > 0 && pages != servers;
        is_wrong.then(|| {
            let named = if pages == 1 { "page" } else { "pages" };
            let servers = match servers {
                1 => "there is one server".to_owned(),
                count => format!("{} names {count} servers", shown_urls(draft)),
            };
            format!("--metrics-url names {pages} {named}, but {servers}: give one for each -u, in their order")
        })
    }),
    made(|draft| {
        let count = draft.plan.target.connections().count();
        (are_several(draft) && count > MOST_SERVERS).then(|| {
            format!(
                "-u names {count} servers: at most {MOST_SERVERS} can be measured together; put a balancer before them"
            )
        })
    }),
    rule(
        |draft| are_several(draft) && draft.plan.load.ranks.mpi,
        "{-u...}: the processes of an MPI job have figures of one server each: give each its own -u, or leave out \
         --enable-mpi",
    ),
    rule(
        |draft| draft.given.has("--spread") && !are_several(draft),
        "{--spread} spreads requests over several servers: name them, as in -u A -u B",
    ),
];

/// Whether requests are spread over several servers.
fn are_several(draft: &Draft) -> bool {
    !draft.plan.target.replicas.is_empty()
}

/// As many as one worker waits for.
const MOST_SERVERS: usize = 64;
