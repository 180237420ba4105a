//! The load that a server of language models told of itself, in words.

use crate::result::number::plain;
use crate::result::summary::{MeanAndMax, ServerLoad};

/// `running avg 7.8 (max 16), waiting avg 0.2 (max 3), KV cache avg 41 % (max 66 %)`, as far as it is known.
pub fn text(load: &ServerLoad) -> String {
    let count =
        |name: &str, values: &MeanAndMax| format!("{name} avg {} (max {})", plain(values.mean), plain(values.max));
    let share = |values: &MeanAndMax| {
        format!("KV cache avg {} % (max {} %)", plain(100.0 * values.mean), plain(100.0 * values.max))
    };
    let parts = [
        load.running.as_ref().map(|running| count("running", running)),
        load.waiting.as_ref().map(|waiting| count("waiting", waiting)),
        load.kv_cache.as_ref().map(share),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let values = |mean, max| Some(MeanAndMax { mean, max });
        let whole = ServerLoad { running: values(7.8, 16.0), waiting: values(0.2, 3.0), kv_cache: values(0.41, 0.66) };
        assert_eq!(text(&whole), "running avg 7.8 (max 16), waiting avg 0.2 (max 3), KV cache avg 41 % (max 66 %)");
        let no_cache = ServerLoad { running: values(0.0, 0.0), waiting: values(1.0 / 3.0, 1.0), kv_cache: None };
        assert_eq!(text(&no_cache), "running avg 0 (max 0), waiting avg 0.333 (max 1)");
    }
}
