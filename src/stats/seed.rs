//! Derives every random draw of a run from one seed, without two draws sharing a stream.
//!
//! Each [`Purpose`] has its own number; its stream is seeded with `mix(seed + GOLDEN * purpose)`, where `mix` is the
//! finaliser of SplitMix64 (Steele, Lea and Flood, 2014) and `GOLDEN` is that generator's increment. Draws that must
//! not depend on the order in which threads arrive (the length of sequence number 17, the model of request number 4711)
//! are *counter-based*: [`hash`] of the stream's seed and the number.

/// What a random stream is for. The numbers are part of what "same seed, same load" promises: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Gaps between requests.
    Gaps = 1,
    /// Lengths of sequences.
    SequenceLengths = 2,
    /// Which model of a mix a request goes to.
    Mix = 3,
    /// Lengths and words of generated prompts.
    Prompts = 4,
    /// In which order a round measures its variants.
    Rounds = 5,
    /// Which sides of pairs a permutation test exchanges.
    SignFlips = 6,
    /// Orders and loads of a search for a configuration.
    Tuning = 7,
    /// Words that prompts share: prefixes, and blocks of recorded prompts.
    Prefixes = 8,
    /// Which prefix a prompt has.
    PrefixOrder = 9,
    /// Turns, pauses and system prompts of generated conversations.
    Conversations = 10,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The seed of the stream that serves `purpose` in a run with seed `run`.
pub fn derive(run: u64, purpose: Purpose) -> u64 {
    mix(run.wrapping_add(GOLDEN.wrapping_mul(purpose as u64)))
}

/// Draw number `counter` of the counter-based stream with seed `stream`: 64 uniform bits.
pub fn hash(stream: u64, counter: u64) -> u64 {
    mix(stream.wrapping_add(GOLDEN.wrapping_mul(counter.wrapping_add(1))))
}

/// 64 random bits as a number in `[0, 1)` with 53 bits of precision.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_splitmix64() {
        // The first outputs of SplitMix64 with seed 1234567, as published with the generator.
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0, 1, 2].map(|counter| hash(1_234_567, counter)), published);
    }

    #[test]
    fn purposes_and_seeds_give_different_streams() {
        let purposes = [Purpose::Gaps, Purpose::SequenceLengths, Purpose::Mix, Purpose::Prompts];
        let mut seeds: Vec<u64> = (0..50).flat_map(|run| purposes.map(|purpose| derive(run, purpose))).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 200);
    }

    #[test]
    fn unit_is_even_over_the_interval() {
        let mean = (0..100_000).map(|counter| unit(hash(7, counter))).sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        assert!(unit(u64::MAX) < 1.0);
    }
}
