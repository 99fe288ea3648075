//! Pictures of recorded runs: one SVG, or one HTML page that needs nothing else.
//!
//! Owns the way from runs to a file: [`panels`] chooses what is shown, [`svg`] draws it, [`theme`] has the colours of light and
//! dark, [`html`] wraps the drawing. Behind the feature `plot`. Must not know where runs come from.

pub mod html;
pub mod panels;
pub mod scale;
pub mod svg;
#[cfg(test)]
mod tests;
pub mod theme;

use std::path::Path;

use crate::runs::RunRecord;
pub use theme::Theme;

/// Writes a picture of `runs` to `path`: an HTML page if it ends so, else SVG.
///
/// # Errors
///
/// The message for the user.
pub fn write(runs: &[RunRecord], path: &Path, theme: Theme) -> Result<(), String> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    let text = match extension.as_deref() {
        Some("html" | "htm") => html::page(runs, theme)?,
        Some("svg") => svg::draw(&panels::of(runs), theme)?,
        _ => {
            return Err(format!(
                "Invalid argument: cannot write {}: a picture ends in .svg or .html (for PNG: rsvg-convert out.svg -o out.png)",
                path.display()
            ));
        }
    };
    std::fs::write(path, text).map_err(|error| format!("IO error: cannot write {}: {error}", path.display()))
}
