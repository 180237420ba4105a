//! Draws an SVG.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

/// Pixels for each unit of the SVG: sharp on a slide.
const SCALE: f32 = 3.0;
/// Families that look alike in charts, the likeliest first.
const SANS: [&str; 6] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica", "Roboto"];

/// Fails without a font, and says how to get one.
///
/// # Errors
/// As above.
pub fn check() -> Result<(), String> {
    fonts().map(drop)
}

/// The picture as PNG.
///
/// # Errors
/// If there is no font, or not enough memory.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let options = Options { fontdb: Arc::new(fonts()?), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or("it has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("there is no memory for its pixels")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| error.to_string())
}

/// The fonts of this machine, with one for text that asks for whatever the system has.
fn fonts() -> Result<Database, String> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    with_sans(fonts)
}

fn with_sans(mut fonts: Database) -> Result<Database, String> {
    let names = |wanted: &str| fonts.faces().any(|face| face.families.iter().any(|(family, _)| family == wanted));
    let sans = SANS.into_iter().find(|family| names(family)).map(str::to_owned);
    let any = || fonts.faces().find_map(|face| Some(face.families.first()?.0.clone()));
    let Some(family) = sans.or_else(any) else {
        return Err(
            "this machine has no font to write text with: install one, such as fonts-dejavu-core, or name FILE.svg"
                .to_owned(),
        );
    };
    fonts.set_sans_serif_family(family);
    Ok(fonts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 100 20\" width=\"100%\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\
         <text x=\"4\" y=\"14\" font-family=\"system-ui, sans-serif\" font-size=\"12\">p99</text></svg>";

    #[test]
    fn without_a_font_the_way_to_one_is_told() {
        let refused = with_sans(Database::new()).unwrap_err();
        assert!(refused.contains("no font") && refused.contains("fonts-dejavu-core"), "{refused}");
    }

    #[test]
    fn text_leaves_ink() {
        let pixels = Pixmap::decode_png(&png(DRAWN).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (300, 60));
        let dark = pixels.pixels().iter().filter(|pixel| pixel.red() < 80).count();
        assert!((100..6000).contains(&dark), "{dark} dark pixels");
        let blank = Pixmap::decode_png(&png(&DRAWN.replace("p99", "")).unwrap()).unwrap();
        assert!(blank.pixels().iter().all(|pixel| pixel.red() == 255));
    }
}
