//! The colours, for light and for dark.
//!
//! The drawing is in the light ones. A style sheet in the picture replaces each by its dark twin, by default where the reader
//! prefers dark: so one file reads well on both. Twins have like contrast against their background.

use std::fmt::Write;

use plotters::style::RGBColor;

/// Which colours a picture has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Theme {
    /// What the reader prefers.
    #[default]
    Auto,
    /// Light, always.
    Light,
    /// Dark, always.
    Dark,
}

/// A colour and its dark twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink {
    light: u32,
    dark: u32,
}

const fn ink(light: u32, dark: u32) -> Ink {
    Ink { light, dark }
}

/// Behind everything.
pub const PAPER: Ink = ink(0xFCFCFB, 0x14171A);
/// Titles.
pub const TEXT: Ink = ink(0x1F2328, 0xE6E8EB);
/// Labels of values.
pub const MUTED: Ink = ink(0x5B626A, 0x9AA2AB);
/// Labels of time: a colour of their own, by which the page finds them.
pub const TIME: Ink = ink(0x5B626B, 0x9AA2AC);
/// Lines behind the data.
pub const GRID: Ink = ink(0xE3E6E8, 0x2B3036);
/// The first series.
pub const BLUE: Ink = ink(0x2563EB, 0x6EA8FF);
/// The second.
pub const ORANGE: Ink = ink(0xD9730D, 0xF2A65A);
/// The third.
pub const GREEN: Ink = ink(0x15803D, 0x5CC98B);
/// Limits and stops.
pub const RED: Ink = ink(0xC62828, 0xFF8078);
/// The fourth.
pub const PURPLE: Ink = ink(0x7C3AED, 0xB794FF);
/// The fifth.
pub const TEAL: Ink = ink(0x0E7490, 0x4FC6DB);

/// What runs are drawn in, when there are several.
pub const RUNS: [Ink; 6] = [BLUE, ORANGE, GREEN, PURPLE, TEAL, RED];
const ALL: [Ink; 11] = [PAPER, TEXT, MUTED, TIME, GRID, BLUE, ORANGE, GREEN, RED, PURPLE, TEAL];

impl Ink {
    /// For the drawing.
    pub fn color(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }

    /// As the drawing has it.
    pub fn hex(self) -> String {
        format!("#{:06X}", self.light)
    }

    /// The dark twin.
    pub fn dark_hex(self) -> String {
        format!("#{:06X}", self.dark)
    }
}

/// The style sheet of a picture.
pub fn style(theme: Theme) -> String {
    let mut rules = String::new();
    for ink in ALL {
        let (light, dark) = (ink.hex(), ink.dark_hex());
        let _ = write!(rules, "[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
    }
    let rules = match theme {
        Theme::Light => String::new(),
        Theme::Dark => rules,
        Theme::Auto => format!("@media (prefers-color-scheme:dark){{{rules}}}"),
    };
    format!(
        "<style>text{{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}}{rules}</style>"
    )
}
