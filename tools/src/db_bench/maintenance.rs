//! Benchmarks that are not timed: flushing, waiting, and printing what the engine says about itself.
//!
//! Owns what stands around a property when it is printed. The text of a property is the engine's.

use crate::console::Console;
use crate::report::{engine, levelstats};
use crate::settings::Settings;
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
        Work::Stats => each(target, console, |open| stats(open, settings.bench.all_cfs)),
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

fn stats(open: &OpenDb, all_families: bool) -> String {
    let mut text = property(open, "rocksdb.stats");
    for family in open.families.iter().skip(1).filter(|_| all_families) {
        let part = open.db.property_cf(family, "rocksdb.cfstats");
        text.push_str(&format!("{}\n", part.as_deref().unwrap_or("(failed)")));
    }
    text
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
        console.out(&format!("STATISTICS:\n{}\n", engine::tickers(&open.db.statistics(), cache)));
    }
}
