//! The style of the page: light and dark, from 320 px to paper.

use std::fmt::Write as _;

use crate::draw::{Colour, colours};

const SHEET: &str = include_str!("style.css");

/// The style sheet of a page.
pub fn sheet() -> String {
    let light = palette(|colour| colour.light);
    let dark = palette(|colour| colour.dark);
    let minified: String = SHEET.lines().map(str::trim).collect();
    format!("{minified}{light}@media screen and (prefers-color-scheme:dark){{{dark}}}")
}

/// A stand-alone picture on white: a slide has no style sheet.
pub fn alone(svg: &str) -> String {
    let (head, tail) = svg.split_once('>').unwrap_or((svg, ""));
    format!("{head}><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>{tail}")
}

fn palette(shade: fn(&Colour) -> &'static str) -> String {
    let mut text = String::new();
    for colour in colours() {
        let (class, value) = (colour.class, shade(&colour));
        let _ = write!(text, ".s{class}{{stroke:{value}}}.f{class}{{fill:{value}}}");
    }
    text
}
