//! A picture as PNG instead of SVG. Text is drawn with the font that lies beside this crate's
//! sources, so that a machine without fonts draws the same picture.

use std::fmt;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Dots of the PNG to one unit of the SVG: sharp on dense screens.
const SCALE: f32 = 2.0;

const REGULAR: &[u8] = include_bytes!("../../assets/TidegateSans-Regular.otf");
const BOLD: &[u8] = include_bytes!("../../assets/TidegateSans-SemiBold.otf");

/// Renders a picture that [`draw`](super::draw) has drawn.
pub fn png(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(REGULAR.to_vec());
    fonts.load_font_data(BOLD.to_vec());
    fonts.set_sans_serif_family("Tidegate Sans");
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| PngError(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(PngError::too_large)?;
    let mut dots = Pixmap::new(size.width(), size.height()).ok_or_else(PngError::too_large)?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut dots.as_mut());
    dots.encode_png().map_err(|error| PngError(error.to_string()))
}

/// Why a picture could not be rendered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PngError(String);

impl PngError {
    fn too_large() -> PngError {
        PngError("the picture is too large: compare fewer algorithms".to_owned())
    }
}

impl fmt::Display for PngError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot render the picture: {}", self.0)
    }
}

impl std::error::Error for PngError {}
