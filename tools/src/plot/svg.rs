//! A picture as SVG.
//!
//! Owns sizes and places. plotters writes the elements; it counts whole pixels, so everything is drawn at twice the size and
//! shown at half. Must not know what the panels mean.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::panels::{Panel, Picture};
use super::scale::{Scale, clock, short};
use super::theme::{self, Ink, Theme};

/// Drawn units per shown pixel.
const ZOOM: f64 = 2.0;
const WIDTH: f64 = 960.0;
/// Where the data begins and ends, from the left.
pub const LEFT: f64 = 64.0;
/// See [`LEFT`].
pub const RIGHT: f64 = 866.0;
const HEAD: f64 = 62.0;
const PANEL: f64 = 96.0;
const CAPTION: f64 = 26.0;
const FOOT: f64 = 40.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws `picture`.
///
/// # Errors
///
/// The message for the user.
pub fn draw(picture: &Picture, theme: Theme) -> Result<String, String> {
    let mut text = String::new();
    let height = HEAD + FOOT + picture.panels.iter().map(|panel| CAPTION + PANEL * panel.weight).sum::<f64>();
    {
        let size = ((WIDTH * ZOOM) as u32, (height * ZOOM) as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        all(&root, picture, height).map_err(|error| format!("cannot draw: {error}"))?;
    }
    Ok(finish(&text, height, theme))
}

/// Shown at half the drawn size, with the style sheet.
fn finish(text: &str, height: f64, theme: Theme) -> String {
    let Some((head, rest)) = text.split_once('>') else { return text.to_owned() };
    let drawn = format!("width=\"{}\" height=\"{}\"", WIDTH * ZOOM, height as u32 as f64 * ZOOM);
    let drawn_exact = format!("width=\"{}\" height=\"{}\"", (WIDTH * ZOOM) as u32, (height * ZOOM) as u32);
    let shown = format!("width=\"{WIDTH}\" height=\"{height:.0}\"");
    let head = head.replace(&drawn_exact, &shown).replace(&drawn, &shown);
    format!("{head}>\n{}{rest}", theme::style(theme))
}

fn all(root: &Area<'_>, picture: &Picture, height: f64) -> Result<(), Box<dyn std::error::Error>> {
    root.fill(&theme::PAPER.color())?;
    label(root, &picture.title, (LEFT, 14.0), 17.0, theme::TEXT, HPos::Left)?;
    label(root, &picture.subtitle, (LEFT, 38.0), 13.0, theme::MUTED, HPos::Left)?;
    let time = Scale::exact(0.0, picture.seconds, LEFT, RIGHT);
    let mut top = HEAD;
    for panel in &picture.panels {
        let bottom = top + CAPTION + PANEL * panel.weight;
        draw_panel(root, panel, &time, top + CAPTION, bottom - 6.0)?;
        top = bottom;
    }
    for (at, name) in picture.begins.iter().filter(|_| picture.begins.len() > 1) {
        let x = time.place(*at);
        path(root, &[(x, HEAD + 14.0), (x, height - FOOT)], theme::MUTED, 0.6, 1.0)?;
        label(root, name, (x + 4.0, HEAD + CAPTION + 2.0), 11.0, theme::MUTED, HPos::Left)?;
    }
    for tick in time.ticks(8) {
        label(root, &clock(tick), (time.place(tick), height - FOOT + 4.0), 12.0, theme::TIME, HPos::Center)?;
    }
    let word = "time since the start, minutes:seconds";
    label(root, word, (RIGHT, height - FOOT + 20.0), 11.0, theme::MUTED, HPos::Right)?;
    root.present()?;
    Ok(())
}

fn draw_panel(
    root: &Area<'_>,
    panel: &Panel,
    time: &Scale,
    top: f64,
    bottom: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let values = vertical(panel, top, bottom);
    label(root, &panel.title, (LEFT, top - 20.0), 13.0, theme::TEXT, HPos::Left)?;
    legend(root, panel, top - 20.0)?;
    let ticks = values.ticks(if bottom - top > 90.0 { 4 } else { 3 });
    for tick in ticks {
        let y = values.place(tick);
        path(root, &[(LEFT, y), (RIGHT, y)], theme::GRID, 1.0, 1.0)?;
        label(root, &short(tick), (LEFT - 8.0, y - 7.0), 12.0, theme::MUTED, HPos::Right)?;
    }
    for (from, to, share) in &panel.shades {
        let (x0, x1) = (time.place(*from), time.place(*to));
        let corners = [(x0, top), (x1, top), (x1, bottom), (x0, bottom)];
        fill(root, &corners, theme::RED, 0.10 + 0.45 * share)?;
    }
    for band in &panel.bands {
        let place = |at: f64, value: f64| (time.place(at), values.place(value));
        let upper = band.points.iter().map(|(at, _, high)| place(*at, *high));
        let lower = band.points.iter().rev().map(|(at, low, _)| place(*at, *low));
        fill(root, &upper.chain(lower).collect::<Vec<_>>(), band.ink, band.opacity)?;
    }
    for level in &panel.levels {
        let y = values.place(level.value);
        path(root, &[(LEFT, y), (RIGHT, y)], level.ink, 0.9, 1.2)?;
        label(root, &level.label, (RIGHT + 6.0, y - 7.0), 12.0, level.ink, HPos::Left)?;
    }
    for line in &panel.lines {
        for stretch in line.points.split(|point| !point.1.is_finite()).filter(|stretch| !stretch.is_empty()) {
            let mut points: Vec<(f64, f64)> =
                stretch.iter().map(|(at, value)| (time.place(*at), values.place(*value))).collect();
            if let [(x, y)] = points[..] {
                points.push((x + 2.0, y));
            }
            path(root, &points, line.ink, 1.0, 1.5)?;
        }
    }
    Ok(())
}

fn vertical(panel: &Panel, top: f64, bottom: f64) -> Scale {
    let of_lines = panel.lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
    let of_bands = panel.bands.iter().flat_map(|band| band.points.iter().map(|(_, _, high)| *high));
    let of_levels = panel.levels.iter().map(|level| level.value);
    let values: Vec<f64> =
        of_lines.chain(of_bands).chain(of_levels).filter(|value| value.is_finite()).collect();
    let greatest = values.iter().copied().fold(panel.at_least, f64::max);
    if panel.log {
        let least = values.iter().copied().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
        Scale::log(if least == f64::MAX { 1.0 } else { least }, greatest, bottom, top)
    } else {
        Scale::linear(greatest, bottom, top)
    }
}

/// Names behind squares of their colours, above the panel, at its right end.
fn legend(root: &Area<'_>, panel: &Panel, y: f64) -> Result<(), Box<dyn std::error::Error>> {
    let bands = panel.bands.iter().map(|band| (&band.label, band.ink, band.opacity.max(0.3)));
    let lines = panel.lines.iter().map(|line| (&line.label, line.ink, 1.0));
    let mut entries: Vec<(&String, Ink, f64)> =
        bands.chain(lines).filter(|entry| !entry.0.is_empty()).collect();
    let stopped = "writers stopped".to_owned();
    if !panel.shades.is_empty() {
        entries.push((&stopped, theme::RED, 0.4));
    }
    // No font is at hand to measure with: sans-serif letters are a little over half as wide as they are high.
    let width = |name: &str| name.chars().count() as f64 * 6.8 + 30.0;
    let mut left = RIGHT + 14.0 - entries.iter().map(|entry| width(entry.0)).sum::<f64>();
    for (name, ink, opacity) in entries {
        let corner = |x: f64, y: f64| ((x * ZOOM) as i32, (y * ZOOM) as i32);
        let square = [corner(left, y + 2.0), corner(left + 10.0, y + 12.0)];
        root.draw(&Rectangle::new(square, ink.color().mix(opacity).filled()))?;
        label(root, name, (left + 15.0, y), 12.0, theme::MUTED, HPos::Left)?;
        left += width(name);
    }
    Ok(())
}

fn pixels(points: &[(f64, f64)]) -> Vec<(i32, i32)> {
    points.iter().map(|(x, y)| ((x * ZOOM).round() as i32, (y * ZOOM).round() as i32)).collect()
}

fn path(
    root: &Area<'_>,
    points: &[(f64, f64)],
    ink: Ink,
    opacity: f64,
    width: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let style = ink.color().mix(opacity).stroke_width((width * ZOOM).round() as u32);
    Ok(root.draw(&PathElement::new(pixels(points), style))?)
}

fn fill(
    root: &Area<'_>,
    corners: &[(f64, f64)],
    ink: Ink,
    opacity: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    Ok(root.draw(&Polygon::new(pixels(corners), ink.color().mix(opacity).filled()))?)
}

fn label(
    root: &Area<'_>,
    text: &str,
    at: (f64, f64),
    size: f64,
    ink: Ink,
    side: HPos,
) -> Result<(), Box<dyn std::error::Error>> {
    if text.is_empty() {
        return Ok(());
    }
    // plotters takes the size of a font's box, which is larger than the letters by this much.
    let style =
        ("sans-serif", size * ZOOM * 1.24).into_font().color(&ink.color()).pos(Pos::new(side, VPos::Top));
    Ok(root.draw_text(text, &style, pixels(&[at])[0])?)
}
