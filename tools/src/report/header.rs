//! The block above a run: what is measured, and on which machine.
//!
//! Owns the lines of both streams and their uneven label widths, which scripts rely on. Must not know flags by name.

use super::date::Moment;
use crate::settings::{Settings, bindings};
use crate::workload::values::{SizeDistribution, Sizes};

/// The lines for stderr: version, date, processor.
pub fn machine() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let short = version.rsplit_once('.').map_or(version, |(major_minor, _)| major_minor);
    let mut text = format!("SluiceDB:    version {short}\nDate:       {}\n", Moment::now().ctime());
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    if let Some(model) = field("model name") {
        let count = cpuinfo.lines().filter(|line| line.starts_with("model name")).count();
        text.push_str(&format!("CPU:        {count} * {model}\n"));
    }
    if let Some(cache) = field("cache size") {
        text.push_str(&format!("CPUCache:   {cache}\n"));
    }
    text
}

/// The lines for stdout, from `Keys:` to the dashes.
pub fn load(settings: &Settings) -> String {
    let bench = &settings.bench;
    let sizes = Sizes {
        distribution: bench.value_size_distribution_type,
        fixed: bench.value_size,
        range: (bench.value_size_min, bench.value_size_max),
    };
    let value = sizes.average() as f64;
    let compressed = value * bench.compression_ratio;
    let megabytes = |bytes: f64| (bench.key_size as f64 + bytes) * bench.num as f64 / 1_048_576.0;
    let mut text = format!("Keys:       {} bytes each (+ 0 bytes user-defined timestamp)\n", bench.key_size);
    let average = if sizes.distribution == SizeDistribution::Fixed { "" } else { " avg" };
    let after = (compressed + 0.5) as u64;
    text.push_str(&format!("Values:     {value}{average} bytes each ({after} bytes after compression)\n"));
    if sizes.distribution != SizeDistribution::Fixed {
        let (name, (least, most)) = (sizes.distribution.name(), sizes.range);
        text.push_str(&format!("Values Distribution: {name} (min: {least}, max: {most})\n"));
    }
    text.push_str(&format!("Entries:    {}\n", bench.num));
    text.push_str("Prefix:    0 bytes\nKeys per prefix:    0\n");
    text.push_str(&format!("RawSize:    {:.1} MB (estimated)\n", megabytes(value)));
    text.push_str(&format!("FileSize:   {:.1} MB (estimated)\n", megabytes(compressed)));
    text.push_str(&format!("Write rate: {} bytes/second\n", bench.benchmark_write_rate_limit));
    text.push_str(&format!("Read rate: {} ops/second\n", bench.benchmark_read_rate_limit));
    let codec = bindings::compression_name(settings.db.column_family.compression);
    text.push_str(&format!("Compression: {codec}\nCompression sampling rate: 0\n"));
    text.push_str(&format!("Memtablerep: {}\nPerf Level: 1\n", bench.memtablerep));
    if cfg!(debug_assertions) {
        text.push_str("WARNING: Optimization is disabled: benchmarks unnecessarily slow\n");
        text.push_str("WARNING: Assertions are enabled; benchmarks unnecessarily slow\n");
    }
    text.push_str("------------------------------------------------\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented block, to the byte (`db-bench DB10`).
    #[test]
    fn the_documented_block_is_printed() {
        let mut settings = Settings::default();
        settings.bench.num = 2_000_000;
        settings.bench.value_size = 1000;
        settings.db.column_family.compression = sluicedb::Compression::None;
        let text = load(&settings);
        let without_warnings: String = text
            .lines()
            .filter(|line| !line.starts_with("WARNING"))
            .map(|line| format!("{line}\n"))
            .collect();
        let expected = "\
Keys:       16 bytes each (+ 0 bytes user-defined timestamp)
Values:     1000 bytes each (500 bytes after compression)
Entries:    2000000
Prefix:    0 bytes
Keys per prefix:    0
RawSize:    1937.9 MB (estimated)
FileSize:   984.2 MB (estimated)
Write rate: 0 bytes/second
Read rate: 0 ops/second
Compression: NoCompression
Compression sampling rate: 0
Memtablerep: skip_list
Perf Level: 1
------------------------------------------------
";
        assert_eq!(without_warnings, expected);
    }

    /// benchmark.sh reads fields 6, 3, 4 and 5 of the `Date:` line; one version line (`db-bench DB10`).
    #[test]
    fn the_machine_lines_are_readable() {
        let text = machine();
        let date = text.lines().find(|line| line.starts_with("Date: ")).unwrap();
        let fields: Vec<&str> = date.split_whitespace().collect();
        assert_eq!(fields.len(), 6);
        assert_eq!((fields[2].len(), fields[4].len(), fields[5].len()), (3, 8, 4));
        assert!(text.starts_with("SluiceDB:    version 0."));
    }
}
