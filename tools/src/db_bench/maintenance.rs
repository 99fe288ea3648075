//! Benchmarks that are not timed: flushing, waiting, and printing what the engine says about itself.
//!
//! Owns what stands around a property when it is printed. The text of a property is the engine's.

use crate::console::Console;
use crate::report::date::Moment;
use crate::report::{engine, legacy, levelstats};
use crate::settings::{Bench, Settings};
use crate::workload::catalogue::Work;
use crate::workload::target::{OpenDb, Target};
use crate::workload::worker::Failure;

/// Runs one of them.
pub fn run(work: Work, target: &Target, settings: &Settings, console: &Console) -> Result<(), Failure> {
    let failed = |doing: &'static str| move |error| Failure::of(doing, &error);
    match work {
        Work::Flush => {
            for open in &target.dbs {
                open.db.flush().map_err(failed("flush"))?;
            }
            console.out("flush memtable\n");
        }
        Work::CompactAll => {
            for open in &target.dbs {
                for family in &open.families {
                    open.db.compact_range_cf(family, None, None).map_err(failed("CompactRange"))?;
                }
            }
        }
        Work::WaitForCompaction => {
            for open in &target.dbs {
                open.db.wait_for_background_work().map_err(failed("waitforcompaction"))?;
            }
        }
        Work::Stats => each(target, console, |open| stats(open, &settings.bench)),
        Work::ResetStats => target.dbs.iter().for_each(|open| open.db.reset_stats()),
        Work::LevelStats => {
            let mut text = String::new();
            for open in &target.dbs {
                if target.dbs.len() > 1 {
                    text.push_str(&levelstats::database_heading(&open.path));
                }
                text.push_str(&level_stats(open)?);
            }
            console.out(&text);
        }
        Work::Sstables => each(target, console, |open| property(open, "rocksdb.sstables")),
        Work::MemStats => each(target, console, mem_stats),
        // The rest is timed.
        _ => {}
    }
    Ok(())
}

/// Prints one text per database, under its heading if there are several.
fn each(target: &Target, console: &Console, text_of: impl Fn(&OpenDb) -> String) {
    for open in &target.dbs {
        let heading =
            if target.dbs.len() > 1 { levelstats::database_heading(&open.path) } else { String::new() };
        console.out(&format!("{heading}{}", text_of(open)));
    }
}

/// A property between an empty line and a line feed, as upstream's printer does it.
fn property(open: &OpenDb, name: &str) -> String {
    format!("\n{}\n", open.db.property(name).as_deref().unwrap_or("(failed)"))
}

fn stats(open: &OpenDb, bench: &Bench) -> String {
    let mut text = property(open, "rocksdb.stats");
    for family in open.families.iter().skip(1).filter(|_| bench.all_cfs) {
        let part = open.db.property_cf(family, "rocksdb.cfstats");
        text.push_str(&format!("{}\n", part.as_deref().unwrap_or("(failed)")));
    }
    if bench.legacy_stall_line { legacy::add_stall_lines(&text) } else { text }
}

fn level_stats(open: &OpenDb) -> Result<String, Failure> {
    let mut tables = Vec::new();
    for family in &open.families {
        let levels = open.db.level_stats(family).map_err(|error| Failure::of("levelstats", &error))?;
        tables.push((family.name(), levels.iter().map(levelstats::Row::from).collect()));
    }
    Ok(levelstats::tables(tables.into_iter()))
}

fn mem_stats(open: &OpenDb) -> String {
    const NAMES: [&str; 6] = [
        "num-immutable-mem-table",
        "cur-size-active-mem-table",
        "cur-size-all-mem-tables",
        "size-all-mem-tables",
        "num-entries-active-mem-table",
        "num-entries-imm-mem-tables",
    ];
    let line = |name: &str| {
        let name = format!("rocksdb.{name}");
        format!("{name}: {}\n", open.db.property(&name).as_deref().unwrap_or("(failed)"))
    };
    NAMES.iter().map(|name| line(name)).collect()
}

/// `STATISTICS:` and the tickers of every database.
pub fn print_statistics(target: &Target, console: &Console) {
    let cache = target.cache.as_ref().map(|cache| (cache.hits(), cache.misses()));
    for open in &target.dbs {
        console.out(&format!("STATISTICS:\n{}\n", engine::statistics(&open.db, cache)));
    }
}

/// The tickers as they stood at some moments of a run.
#[derive(Debug, Default)]
pub struct StatsHistory(Vec<HistoryNote>);

#[derive(Debug)]
struct HistoryNote {
    moment: Moment,
    /// The same in seconds since 1970.
    seconds: u64,
    /// The tickers of each database.
    tickers: Vec<Vec<(&'static str, u64)>>,
}

impl StatsHistory {
    /// Notes how the tickers of every database stand now.
    pub fn note(&mut self, target: &Target) {
        let cache = target.cache.as_ref().map(|cache| (cache.hits(), cache.misses()));
        let tickers = target.dbs.iter().map(|open| engine::tickers(&open.db.statistics(), cache)).collect();
        self.0.push(HistoryNote { moment: Moment::now(), seconds: Moment::unix_seconds(), tickers });
    }

    /// Forgets everything: the databases it was about are gone.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Prints every note, database by database, in upstream's shape.
    pub fn print(&self, target: &Target, console: &Console) {
        for (at, open) in target.dbs.iter().enumerate() {
            let heading =
                if target.dbs.len() > 1 { levelstats::database_heading(&open.path) } else { String::new() };
            let mut text = heading;
            for HistoryNote { moment, seconds, tickers } in &self.0 {
                text.push_str(&format!("------ {} ------\n", moment.stamp()));
                for (name, count) in tickers.get(at).into_iter().flatten() {
                    text.push_str(&format!(" {seconds}  {name}  {count}\n"));
                }
            }
            console.out(&text);
        }
    }
}
