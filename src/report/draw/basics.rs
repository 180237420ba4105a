//! What every picture has: a frame, colours, texts.

use maud::{Markup, html};

/// The width of every picture.
pub const WIDTH: f64 = 640.0;

/// Where a picture's data are.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Its left edge.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
}

impl Frame {
    /// The horizontal coordinate at a share of its width.
    pub fn x(&self, share: f64) -> f64 {
        self.left + share * self.width
    }

    /// The vertical coordinate at a share of its height, from below.
    pub fn y(&self, share: f64) -> f64 {
        self.top + (1.0 - share) * self.height
    }

    /// Its right edge.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Its lower edge.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// A colour: its class in the style sheet, and its value on white paper.
#[derive(Clone, Copy, Debug)]
pub struct Colour {
    /// Its number in the class names `sN` (lines) and `fN` (areas).
    pub class: usize,
    /// On white.
    pub light: &'static str,
    /// On black.
    pub dark: &'static str,
}

const fn colour(class: usize, light: &'static str, dark: &'static str) -> Colour {
    Colour { class, light, dark }
}

/// Colours of things without an order, distinguishable with every kind of colour blindness (after Okabe and Ito).
pub const KINDS: [Colour; 8] = [
    colour(0, "#0072b2", "#56b4e9"),
    colour(1, "#d55e00", "#ff8f4d"),
    colour(2, "#00805d", "#3ccba3"),
    colour(3, "#a63d87", "#e795cf"),
    colour(4, "#8a6a00", "#f0c75e"),
    colour(5, "#4a4e57", "#b7bec8"),
    colour(6, "#2f9bd6", "#8fd0f5"),
    colour(7, "#8c4a2f", "#d9a38c"),
];

/// Colours of ordered things, such as levels: darker to brighter, with every kind of colour blindness.
pub const ORDER: [Colour; 12] = [
    colour(8, "#0d0887", "#8f6bff"),
    colour(9, "#350498", "#a067f5"),
    colour(10, "#5302a3", "#b163e8"),
    colour(11, "#6f00a8", "#c15fd9"),
    colour(12, "#8b0aa5", "#cf5dc8"),
    colour(13, "#a31e9a", "#da5fb5"),
    colour(14, "#b83289", "#e466a1"),
    colour(15, "#cc4778", "#ec708c"),
    colour(16, "#d6556d", "#f37f78"),
    colour(17, "#dd6a48", "#f89464"),
    colour(18, "#c26a12", "#fbae53"),
    colour(19, "#a87600", "#f9cd4b"),
];

/// Colours of a heat map, from few to many.
pub const HEAT: [Colour; 8] = [
    colour(20, "#e4eef7", "#16273a"),
    colour(21, "#c6dcee", "#1a3f63"),
    colour(22, "#9cc3e0", "#155a86"),
    colour(23, "#6ba3cd", "#1a7a9c"),
    colour(24, "#4280b5", "#2fa08f"),
    colour(25, "#2b5d96", "#6cc36c"),
    colour(26, "#1c3d73", "#bfdc54"),
    colour(27, "#0d2048", "#fdf3a1"),
];

/// One colour of an order of `count` things.
pub fn of_order(number: usize, count: usize) -> Colour {
    let last = ORDER.len() - 1;
    ORDER[if count <= 1 { 0 } else { (number * last / (count - 1)).min(last) }]
}

/// One colour of things without order.
pub fn of_kind(number: usize) -> Colour {
    KINDS[number % KINDS.len()]
}

/// Every colour, for the style sheet.
pub fn colours() -> impl Iterator<Item = Colour> {
    KINDS.into_iter().chain(ORDER).chain(HEAT)
}

/// A coordinate: one decimal is finer than a screen shows.
pub fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Where a text is anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At its beginning.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

impl Anchor {
    /// Its value of `text-anchor`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A text in the page's colour.
pub fn text(x: f64, y: f64, anchor: Anchor, words: &str) -> Markup {
    html! { text.ink x=(n(x)) y=(n(y)) text-anchor=(anchor.name()) fill="#1f2933" { (words) } }
}

/// The same, dimmed.
pub fn dim(x: f64, y: f64, anchor: Anchor, words: &str) -> Markup {
    html! { text.dim x=(n(x)) y=(n(y)) text-anchor=(anchor.name()) fill="#5b6672" { (words) } }
}

/// The same in a colour.
pub fn coloured(x: f64, y: f64, anchor: Anchor, colour: Colour, words: &str) -> Markup {
    let class = format!("f{}", colour.class);
    html! {
        text class=(class) x=(n(x)) y=(n(y)) text-anchor=(anchor.name()) fill=(colour.light) font-weight="600" { (words) }
    }
}

/// A picture; `words` describe it for readers who cannot see it.
pub fn picture(height: f64, words: &str, content: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (n(WIDTH)) " " (n(height)) } width="100%" role="img"
            font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif" font-size="11" {
            title { (words) }
            (content)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_colours_have_names_of_their_own() {
        assert_eq!([1.0, 1.25, -0.04, 639.96].map(n), ["1", "1.2", "0", "640"]);
        let mut classes: Vec<usize> = colours().map(|colour| colour.class).collect();
        let all = classes.len();
        classes.dedup();
        assert_eq!(classes.len(), all);
        assert_eq!((of_order(0, 1).class, of_order(0, 5).class, of_order(4, 5).class), (8, 8, 19));
    }

    #[test]
    fn words_make_no_markup() {
        let drawn = picture(10.0, "<script>", &text(0.0, 0.0, Anchor::Start, "</text><script>&\"")).into_string();
        assert!(!drawn.contains("<script>") && drawn.contains("&lt;/text&gt;&lt;script&gt;&amp;"), "{drawn}");
    }
}
