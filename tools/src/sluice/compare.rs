//! `sluice compare` and `sluice plot`: recorded runs of db_bench, as a table or as a picture.
//!
//! Owns the command lines; the figures are [`crate::runs`]'s, the pictures the module `plot`'s.

use std::path::PathBuf;

use super::common::{Failure, Streams};
use crate::runs::{RunRecord, compare};

/// Sets recorded runs of db_bench side by side: a Markdown table, and which is better.
///
/// Runs are files of --json or of --report_file; the first is the baseline. In the table the better value is bold. An interval is
/// the range in which a ratio lies by chance within the runs; one that holds 1 is noise.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// Files of --json or --report_file; the first is the baseline
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Exit with 4 when a run's mean falls or its cv rises by more than this, in percent
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_if_worse: Option<f64>,
    /// Draw the runs over each other, too: a file that ends in .svg or .html
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Colours of the drawing
    #[command(flatten)]
    look: Look,
}

/// Draws a recorded run of db_bench as stacked panels on one axis of time; several runs over each other.
#[derive(Debug, clap::Args)]
pub struct PlotArgs {
    /// Files of --json or --report_file
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The picture: a file that ends in .svg or .html [default: the first run's name with .svg]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Colours of the drawing
    #[command(flatten)]
    look: Look,
}

/// Colours of a drawing.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Look {
    /// auto follows the reader's preference
    #[cfg(feature = "plot")]
    #[arg(long, value_enum, default_value = "auto")]
    theme: crate::plot::Theme,
}

/// `5%` or `5`, as a share.
fn percent(text: &str) -> Result<f64, String> {
    let number: Result<f64, _> = text.trim_end_matches('%').parse();
    let share = number.ok().filter(|number| number.is_finite() && *number >= 0.0);
    share.map(|number| number / 100.0).ok_or_else(|| format!("'{text}' is no percentage, write 5%"))
}

fn read(paths: &[PathBuf]) -> Result<Vec<RunRecord>, Failure> {
    paths.iter().map(|path| RunRecord::read(path).map_err(Failure::Failed)).collect()
}

/// Prints the comparison.
///
/// # Errors
///
/// A file that is no run, runs without a common benchmark, a drawing that cannot be written; [`Failure::Worse`].
pub fn compare(args: &CompareArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let runs = read(&args.runs)?;
    let comparison = compare::compare(&runs, args.fail_if_worse).map_err(Failure::Failed)?;
    streams.print(comparison.text.trim_start());
    if let Some(out) = &args.out {
        draw(&runs, out, args.look)?;
    }
    if comparison.worse { Err(Failure::Worse) } else { Ok(()) }
}

/// Draws.
///
/// # Errors
///
/// A file that is no run, a drawing that cannot be written.
pub fn plot(args: &PlotArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let runs = read(&args.runs)?;
    let out = args.out.clone().unwrap_or_else(|| args.runs[0].with_extension("svg"));
    draw(&runs, &out, args.look)?;
    streams.note(&format!("wrote {}", out.display()));
    Ok(())
}

#[cfg(feature = "plot")]
fn draw(runs: &[RunRecord], out: &std::path::Path, look: Look) -> Result<(), Failure> {
    crate::plot::write(runs, out, look.theme).map_err(Failure::Failed)
}

#[cfg(not(feature = "plot"))]
fn draw(_: &[RunRecord], _: &std::path::Path, _: Look) -> Result<(), Failure> {
    Err(Failure::Failed("Not supported: this sluice was built without the feature 'plot'".to_owned()))
}
