//! Rules of several servers.

use crate::Draft;
use crate::exit::Codes;
use crate::validate::Rule;

/// Rules of several servers.
pub(super) const RULES: &[Rule] = &[
    Rule {
        broken: |draft| are_several(draft) && draft.plan.matrix.is_none() && !draft.plan.target.service.is_remote(),
        message: |draft| {
            format!(
                "{}: requests are spread over servers on the network only: leave out all but one, or use --service-kind triton",
                shown_urls(draft)
            )
        },
    },
    Rule {
        broken: |draft| are_several(draft) && !draft.given.which(|flag| flag.one_server).is_empty(),
        message: |draft| {
            format!(
                "{} is for one server, but {} names several: leave it out, or measure each server by itself",
                draft.given.which(|flag| flag.one_server).join(" and "),
                shown_urls(draft)
            )
        },
    },
    Rule {
        broken: |draft| {
            let pages = draft.given.values("--metrics-url").count();
            draft.codes == Codes::Own && pages > 0 && pages != draft.plan.target.connections().count()
        },
        message: |draft| {
            let pages = draft.given.values("--metrics-url").count();
            let servers = match draft.plan.target.connections().count() {
                1 => "there is one server".to_owned(),
                count => format!("{} names {count} servers", shown_urls(draft)),
            };
            format!(
                "--metrics-url names {pages} {}, but {servers}: give one for each -u, in their order",
                if pages == 1 { "page" } else { "pages" }
            )
        },
    },
    Rule {
        broken: |draft| are_several(draft) && draft.plan.target.connections().count() > MOST_SERVERS,
        message: |draft| {
            let count = draft.plan.target.connections().count();
            format!(
                "-u names {count} servers: at most {MOST_SERVERS} can be measured together; put a balancer before them"
            )
        },
    },
    Rule {
        broken: |draft| are_several(draft) && draft.plan.load.ranks.mpi,
        message: |draft| {
            format!(
                "{}: the processes of an MPI job have figures of one server each: give each its own -u, or leave out \
                 --enable-mpi",
                shown_urls(draft)
            )
        },
    },
    Rule {
        broken: |draft| draft.given.has("--spread") && !are_several(draft),
        message: |draft| {
            format!(
                "{} spreads requests over several servers: name them, as in -u A -u B",
                draft.given.show("--spread")
            )
        },
    },
];

/// Whether requests are spread over several servers.
fn are_several(draft: &Draft) -> bool {
    !draft.plan.target.replicas.is_empty()
}

fn shown_urls(draft: &Draft) -> String {
    draft.given.values("-u").map(|url| format!("-u {url}")).collect::<Vec<_>>().join(" ")
}

/// As many as one worker waits for.
const MOST_SERVERS: usize = 64;
