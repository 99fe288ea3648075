//! A picture as one HTML page that needs nothing else: the drawing, the numbers, a little script, and how to run it again.

use std::fmt::Write;

use serde_json::{Value, json};

use super::panels::{self, Picture};
use super::svg;
use super::theme::{self, Theme};
use crate::runs::RunRecord;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page of `runs`.
///
/// # Errors
///
/// The message for the user.
pub fn page(runs: &[RunRecord], theme: Theme) -> Result<String, String> {
    let picture = panels::of(runs);
    let drawing = svg::draw(&picture, theme)?;
    // The data stands within an element: nothing in it may look like the element's end.
    let data = data(&picture).to_string().replace('<', "\\u003c");
    let title = escaped(&picture.title);
    let class = match theme {
        Theme::Auto => "auto",
        Theme::Light => "light",
        Theme::Dark => "dark",
    };
    let (toggles, again) = (toggles(&picture), reproduce(&picture));
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\" class=\"{class}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>\n{toggles}<p id=\"now\">Point at the drawing to read it; drag to look closer; \
         double-click to see all.</p>\n<figure>\n{drawing}</figure>\n{again}</main>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    ))
}

fn data(picture: &Picture) -> Value {
    let thousandth = |value: f64| (value * 1000.0).round() / 1000.0;
    let panel = |panel: &panels::Panel| {
        let name = |label: &str, index: usize| match picture.runs.get(index) {
            Some((run, ..)) if label.is_empty() && picture.runs.len() > 1 => run.clone(),
            _ => label.to_owned(),
        };
        let lines = panel.lines.iter().enumerate().map(|(index, line)| {
            let points: Vec<_> = line
                .points
                .iter()
                .filter(|(_, v)| v.is_finite())
                .map(|(at, v)| [thousandth(*at), thousandth(*v)])
                .collect();
            json!({ "name": name(&line.label, index), "color": line.ink.hex(), "points": points })
        });
        let bands = panel.bands.iter().filter(|band| band.points.len() > 2).map(|band| {
            let points: Vec<_> =
                band.points.iter().map(|(at, low, high)| [thousandth(*at), thousandth(high - low)]).collect();
            json!({ "name": band.label, "color": band.ink.hex(), "points": points })
        });
        json!({ "title": panel.title, "series": lines.chain(bands).collect::<Vec<_>>() })
    };
    let inks = [theme::GRID, theme::TIME];
    json!({
        "seconds": picture.seconds,
        "left": svg::LEFT * 2.0,
        "right": svg::RIGHT * 2.0,
        "grid": inks[0].hex(),
        "time": inks[1].hex(),
        "panels": picture.panels.iter().map(panel).collect::<Vec<_>>(),
    })
}

fn toggles(picture: &Picture) -> String {
    if picture.runs.len() < 2 {
        return String::new();
    }
    let mut text = "<p id=\"runs\">".to_owned();
    for (name, ink, _) in &picture.runs {
        let (color, name) = (ink.hex(), escaped(name));
        let _ =
            write!(text, "<label><input type=\"checkbox\" checked data-color=\"{color}\"> {name}</label> ");
    }
    text + "</p>\n"
}

fn reproduce(picture: &Picture) -> String {
    let known = picture.runs.iter().filter_map(|(name, _, command)| Some((name, command.as_ref()?)));
    let mut text = String::new();
    for (name, command) in known {
        let _ = writeln!(text, "<dt>{}</dt><dd><pre>{}</pre></dd>", escaped(name), escaped(command));
    }
    if text.is_empty() {
        text
    } else {
        format!("<section>\n<h2>Reproduce</h2>\n<dl>\n{text}</dl>\n</section>\n")
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
