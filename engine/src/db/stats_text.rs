//! The text of the property `rocksdb.stats`: RocksDB's compaction table and stall lines, column for column, so that
//! scripts written for it go on reading them; lines of our own come last, under new names.
//!
//! Figures called *interval* count from the last print of the same part. Nothing here decides anything.

use std::fmt::Write as _;

use super::Shared;
use super::pressure::db_stalls;
use crate::column_family::FamilyData;
use crate::compaction::score::Score;
use crate::stats::{LevelWork, StatisticsSnapshot};

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const GIB: f64 = MIB * KIB;

/// What a family's part said last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastFamilyPrint {
    at_micros: u64,
    sum: LevelWork,
    flushed: u64,
    stalls: u64,
}

/// What the database's part said last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastDbPrint {
    at_micros: u64,
    stats: StatisticsSnapshot,
}

impl Shared {
    /// Both parts, for `family` and the database.
    pub(super) fn stats_text(&self, family: &FamilyData) -> String {
        self.family_stats_text(family) + &self.db_stats_text()
    }

    fn uptime_micros(&self) -> u64 {
        (self.clock.now_nanos().saturating_sub(self.opened_at) / 1000).max(1)
    }

    /// Seconds that the text covers, and since the last print of the same part.
    fn seconds(&self, now: u64, last: u64) -> (f64, f64) {
        let since = |then: u64| now.saturating_sub(then).max(1) as f64 / 1e6;
        (since(self.stats_base.get().at_micros), since(last))
    }

    /// Counts from now on.
    pub(super) fn reset_stats(&self) {
        let base = LastDbPrint { at_micros: self.uptime_micros(), stats: self.statistics() };
        self.stats_base.replace(base);
        self.last_print.replace(base);
        for family in self.families.all() {
            family.data.forget_work();
            self.pressure.forget_family_stalls(&family.data);
            let none_yet = LastFamilyPrint { at_micros: base.at_micros, ..LastFamilyPrint::default() };
            family.data.last_print.replace(none_yet);
        }
    }

    /// The part of one column family, headed `** Compaction Stats [NAME] **`.
    pub(super) fn family_stats_text(&self, family: &FamilyData) -> String {
        let now = self.uptime_micros();
        let version = &family.pin().version;
        let score = Score::new(version, &family.options());
        let work = family.work();
        let flushed: u64 = work.first().map_or(0, |l0| l0.flushed);
        let (stall_counts, stalls) = self.pressure.family_stalls(family);

        let mut text = format!("\n** Compaction Stats [{}] **\n", family.name);
        let header = "Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp Rd(MB/s) Wr(MB/s) \
                      Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)";
        let _ = writeln!(text, "{header}\n{}", "-".repeat(header.len() + 1));
        let (mut sum, mut files, mut busy, mut bytes) = (LevelWork::default(), 0, 0, 0);
        for level in 0..version.num_levels() {
            let here = version.files(level);
            let worked = work.get(level).copied().unwrap_or_default();
            let taken = here.iter().filter(|file| file.is_being_compacted()).count();
            let size = version.level_bytes(level);
            if here.is_empty() && worked.count == 0 {
                continue;
            }
            row(
                &mut text,
                &format!("L{level}"),
                here.len(),
                taken,
                size,
                score.of_level(level),
                &worked,
                worked.ingested(),
            );
            sum.add(&worked);
            files += here.len();
            busy += taken;
            bytes += size;
        }
        let last = family.last_print.replace(LastFamilyPrint { at_micros: now, sum, flushed, stalls });
        row(&mut text, "Sum", files, busy, bytes, 0.0, &sum, flushed);
        let interval = sum.since(&last.sum);
        let flushed_since = flushed.saturating_sub(last.flushed);
        row(&mut text, "Int", 0, 0, 0, 0.0, &interval, flushed_since);

        let (total, since) = self.seconds(now, last.at_micros);
        text.push_str("\nBlob file count: 0, total size: 0.0 GB, garbage size: 0.0 GB, space amp: 0.0\n\n");
        let _ = writeln!(text, "Uptime(secs): {total:.1} total, {since:.1} interval");
        let gib = |bytes: u64| bytes as f64 / GIB;
        let _ =
            writeln!(text, "Flush(GB): cumulative {:.3}, interval {:.3}", gib(flushed), gib(flushed_since));
        text.push_str("AddFile(GB): cumulative 0.000, interval 0.000\n");
        for kind in ["Total Files", "L0 Files", "Keys"] {
            let _ = writeln!(text, "AddFile({kind}): cumulative 0, interval 0");
        }
        compaction_line(&mut text, "Cumulative", &sum, total);
        compaction_line(&mut text, "Interval", &interval, since);
        let _ = writeln!(text, "Estimated pending compaction bytes: {}", score.pending_bytes());
        let _ = writeln!(text, "Write Stall (count): {}", stall_counts);
        if stalls > last.stalls {
            let _ = writeln!(text, "interval: {} total count", stalls - last.stalls);
        }
        text
    }

    /// The part of the database, headed `** DB Stats **`.
    pub(super) fn db_stats_text(&self) -> String {
        let now = self.uptime_micros();
        let stats = self.statistics();
        let last = self.last_print.replace(LastDbPrint { at_micros: now, stats });
        let base = self.stats_base.get();
        let (total, since) = self.seconds(now, last.at_micros);

        let mut text = String::from("\n** DB Stats **\n");
        let _ = writeln!(text, "Uptime(secs): {total:.1} total, {since:.1} interval");
        let mut part = |name: &str, then: &LastDbPrint, seconds: f64, unit: (f64, &str)| {
            let since = |now: u64, then: u64| now.saturating_sub(then);
            let writes = since(stats.write_calls, then.stats.write_calls);
            let groups = since(stats.commit_groups, then.stats.commit_groups);
            let bytes = since(stats.bytes_written, then.stats.bytes_written) as f64;
            let keys = since(stats.entries_written, then.stats.entries_written);
            let _ = writeln!(
                text,
                "{name} writes: {} writes, {} keys, {} commit groups, {:.1} writes per commit group, ingest: {:.2} {}, {:.2} MB/s",
                human(writes),
                human(keys),
                human(groups),
                ratio(writes as f64, groups as f64),
                bytes / unit.0,
                unit.1,
                ratio(bytes / MIB, seconds)
            );
            let records = since(stats.wal_writes, then.stats.wal_writes);
            let syncs = since(stats.wal_syncs, then.stats.wal_syncs);
            let logged = since(stats.wal_bytes_written, then.stats.wal_bytes_written) as f64;
            let _ = writeln!(
                text,
                "{name} WAL: {} writes, {} syncs, {:.2} writes per sync, written: {:.2} GB, {:.2} MB/s",
                human(records),
                human(syncs),
                ratio(records as f64, syncs as f64),
                logged / GIB,
                ratio(logged / MIB, seconds)
            );
            let stalled = since(stats.stall_micros, then.stats.stall_micros);
            let percent = ratio(100.0 * stalled as f64 / 1e6, seconds);
            let _ = writeln!(
                text,
                "{name} stall: {} H:M:S, {percent:.1} percent",
                hours_minutes_seconds(stalled)
            );
        };
        part("Cumulative", &base, total, (GIB, "GB"));
        part("Interval", &last, since, (MIB, "MB"));
        text.push_str(&db_stalls(&stats, &base.stats));
        text.push_str(&self.pressure.stats_lines());
        text
    }
}

#[expect(clippy::too_many_arguments, reason = "one argument a column group of RocksDB's table")]
fn row(
    text: &mut String,
    name: &str,
    files: usize,
    busy: usize,
    size: u64,
    score: f64,
    work: &LevelWork,
    ingested: u64,
) {
    let seconds = work.micros as f64 / 1e6;
    let gib = |bytes: u64| bytes as f64 / GIB;
    let rate = |bytes: u64| ratio(bytes as f64 / MIB, seconds);
    let (read, new) = (work.read_upper + work.read_lower, work.written.saturating_sub(work.read_lower));
    let _ = writeln!(
        text,
        "{name:>4} {files:6}/{busy:<3} {:>8} {score:5.1} {:8.1} {:7.1} {:8.1} {:9.1} {:8.1} {:9.1} {:5.1} {:8.1} {:8.1} {seconds:9.2} \
         {:17.2} {:9} {:8.3} {:>7} {:>6} {:9.1} {:9.1}",
        human_bytes(size),
        gib(read),
        gib(work.read_upper),
        gib(work.read_lower),
        gib(work.written),
        gib(new),
        gib(work.moved),
        ratio(work.written as f64, ingested as f64),
        rate(read),
        rate(work.written),
        work.cpu_micros as f64 / 1e6,
        work.count,
        ratio(seconds, work.count as f64),
        human(work.entries_in),
        human(work.entries_dropped),
        0.0,
        0.0
    );
}

fn compaction_line(text: &mut String, name: &str, work: &LevelWork, seconds: f64) {
    let read = work.read_upper + work.read_lower;
    let per_second = |bytes: u64| ratio(bytes as f64 / MIB, seconds);
    let _ = writeln!(
        text,
        "{name} compaction: {:.2} GB write, {:.2} MB/s write, {:.2} GB read, {:.2} MB/s read, {:.1} seconds",
        work.written as f64 / GIB,
        per_second(work.written),
        read as f64 / GIB,
        per_second(read),
        work.micros as f64 / 1e6
    );
}

/// `a / b`, and 0 for nothing of nothing.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// A count as RocksDB shows it: as it is below 10,000, then in K, M or G, cut.
fn human(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}K", count / 1000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// `25.41 MB`; KB is the smallest unit.
fn human_bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    let (unit, name) = match bytes {
        _ if bytes < MIB => (KIB, "KB"),
        _ if bytes < GIB => (MIB, "MB"),
        _ if bytes < GIB * KIB => (GIB, "GB"),
        _ => (GIB * KIB, "TB"),
    };
    format!("{:.2} {name}", bytes / unit)
}

/// `00:00:3.412`, as RocksDB prints a time.
pub(in crate::db) fn hours_minutes_seconds(micros: u64) -> String {
    let (seconds, millis) = (micros / 1_000_000, micros / 1000 % 1000);
    format!("{:02}:{:02}:{}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the table are frozen, byte for byte.
    #[test]
    fn rows_are_frozen() {
        let mut text = String::new();
        let gib = |tenths: u64| tenths * (1 << 30) / 10;
        let work = LevelWork {
            read_upper: gib(19),
            read_lower: gib(8),
            written: gib(26),
            micros: 9_170_000,
            cpu_micros: 8_020_000,
            count: 61,
            entries_in: 2_719_000,
            entries_dropped: 63_999,
            ..LevelWork::default()
        };
        row(&mut text, "L1", 9, 2, 263_926_579, 1.0, &work, gib(19));
        assert_eq!(
            text,
            "  L1      9/2   251.70 MB   1.0      2.7     1.9      0.8       2.6      1.8       0.0   1.4    301.5    290.3      \
             9.17              8.02        61    0.150   2719K    63K       0.0       0.0\n"
        );
    }

    /// Units change where RocksDB's do.
    #[test]
    fn human_numbers() {
        assert_eq!(
            [human(9_999), human(10_000), human(9_999_999), human(10_000_000)],
            ["9999", "10K", "9999K", "10M"]
        );
        assert_eq!(
            [human_bytes(0), human_bytes(1 << 20), human_bytes(3 << 40)],
            ["0.00 KB", "1.00 MB", "3.00 TB"]
        );
        assert_eq!(hours_minutes_seconds(3_723_004_000), "01:02:3.004");
    }
}
