//! What a picture needs to be read: a sentence for each thing that is in it.

use maud::Markup;

use crate::draw::BEYOND;

/// Sentences below a picture, each with what its markup has where the sentence applies.
pub type Signs<'a> = &'a [(&'a str, &'a str)];

/// Of latency against throughput.
pub const THROUGHPUT: Signs<'_> = &[
    ("", "A point for each level; the arms of a cross are 95 % confidence intervals."),
    ("mark hollow", "Hollow points are levels that are not valid."),
    ("\"knee ", "The ring is the knee: the level with the most throughput for its latency."),
];
/// Of tokens over load.
pub const TOKENS: Signs<'_> = &[
    ("", "Time to first token (TTFT) and inter token latency (ITL) of every level."),
    ("mark hollow", "Hollow points are levels that are not valid."),
];
/// Of throughput against interactivity.
pub const INTERACTIVITY: Signs<'_> = &[(
    "",
    "A point for each level: the tokens a second of all users together, against those that each of them sees. \
        Better is up and to the right.",
)];
/// Of percentiles.
pub const SPECTRUM: Signs<'_> = &[
    ("", "Every further nine, as from 99 % to 99.9 %, has the same width."),
    ("dasharray=\"1 3\"", "Where a line is dotted, too few requests lie beyond it to be reliable."),
    (
        "dasharray=\"2 2\"",
        "The thin line below another is its service time, from the actual send; the gap between them is time spent \
            waiting to be sent.",
    ),
];
/// Of what happened over time.
pub const TIMELINE: Signs<'_> = &[
    ("", "Strong grey: warm-up and time between levels."),
    ("\"aside\"", "Faint grey: windows that do not count."),
    ("\"alarm\"", "The red bar marks disturbed windows."),
    ("", "Where there are many windows, lines keep the extremes."),
];
/// Of bandwidths.
pub const BANDWIDTH: Signs<'_> = &[(
    "",
    "Grey: what one thread of this machine does with the same tensors and no server. memcpy copies the inputs once; \
        loopback sends them over a TCP connection on this machine and the outputs back. Several requests at a time may do more.",
)];
/// Of rounds.
pub const ROUNDS: Signs<'_> = &[
    ("", "Dots in a column were measured in the same round."),
    ("hollow", "Hollow ones do not count."),
    (">all<", "Last: all rounds together, with the 95 % interval of the ratio."),
];
/// Of candidates.
pub const CANDIDATES: Signs<'_> = &[
    ("", "A point for each candidate that was measured."),
    ("mark hollow", "Hollow ones miss a constraint."),
    ("", "Crosses of yours and of the winner are 95 % confidence intervals."),
    ("dasharray=\"5 3\"", "Dashed: no other is better in both."),
];

/// Those that apply to a picture.
pub fn caption(drawn: &Markup, signs: Signs<'_>) -> String {
    let arrows = [(BEYOND, "An arrowhead marks an interval that goes on beyond the axis.")];
    let all = signs.iter().chain(&arrows).filter(|(sign, _)| drawn.0.contains(sign)).map(|(_, sentence)| *sentence);
    all.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use maud::PreEscaped;

    use super::*;

    #[test]
    fn only_what_is_in_a_picture_is_explained() {
        let caption = |drawn: &str| caption(&PreEscaped(drawn.to_owned()), THROUGHPUT);
        let bare = caption("<path class=\"mark f0\"/>");
        assert!(bare.starts_with("A point") && !bare.contains("knee") && !bare.contains("Hollow"), "{bare}");
        let all =
            caption(&format!("<circle class=\"knee s5\"/><path class=\"mark hollow s1\"/><title>{BEYOND}</title>"));
        assert!(all.contains("The ring") && all.contains("Hollow") && all.ends_with("beyond the axis."), "{all}");
    }
}
