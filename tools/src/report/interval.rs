//! Interval lines: what one thread did since its last line and since it began, and the stats behind them.
//!
//! Owns their bytes. When a line is due is [`Worker`](crate::workload::worker::Worker)'s affair.

use super::date::Moment;
use crate::workload::target::Target;

/// A line; `ops` and `seconds` are (since the last line, since the start).
pub fn line(thread: usize, ops: (u64, u64), seconds: (f64, f64)) -> String {
    line_at(&Moment::now().stamp(), thread, ops, seconds)
}

fn line_at(stamp: &str, thread: usize, ops: (u64, u64), seconds: (f64, f64)) -> String {
    format!(
        "{stamp}  ... thread {thread}: ({},{}) ops and ({:.1},{:.1}) ops/second in ({:.6},{:.6}) seconds\n",
        ops.0,
        ops.1,
        ops.0 as f64 / seconds.0,
        ops.1 as f64 / seconds.1,
        seconds.0,
        seconds.1
    )
}

/// The stats of every column family and database, and how much runs in the background.
pub fn dump(target: &Target) -> String {
    let mut text = String::new();
    for open in &target.dbs {
        for family in open.families.iter().skip(1) {
            if let Some(stats) = open.db.property_cf(family, "rocksdb.cfstats") {
                text.push_str(&format!("{stats}\n"));
            }
        }
        if let Some(stats) = open.db.property("rocksdb.stats") {
            text.push_str(&format!("{stats}\n"));
        }
        for name in ["num-running-compactions", "num-running-flushes"] {
            if let Some(count) = open.db.property_int(&format!("rocksdb.{name}")) {
                text.push_str(&format!("{name}: {count}\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented line, to the byte.
    #[test]
    fn the_documented_line_is_printed() {
        assert_eq!(
            line_at("2023/05/30-10:12:51", 0, (2_391_000, 4_829_000), (10.002_144, 20.003_780)),
            "2023/05/30-10:12:51  ... thread 0: (2391000,4829000) ops and (239048.7,241404.4) ops/second in \
             (10.002144,20.003780) seconds\n"
        );
    }
}
