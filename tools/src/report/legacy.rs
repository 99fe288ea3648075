//! `Stalls(count):`, the line that RocksDB printed before 8.1 and that old scripts still look for.
//!
//! Owns its bytes. Its figures are those of the line `Write Stall (count):` of a column family's part. Of the memtables'
//! two figures the first is stops, the second delays.

/// `stats` with the line behind each `Write Stall (count):` of a column family, and `interval` filled from the line after.
pub fn add_stall_lines(stats: &str) -> String {
    let lines: Vec<&str> = stats.lines().collect();
    let mut text = String::with_capacity(stats.len() + 300);
    for (at, line) in lines.iter().enumerate() {
        text.push_str(line);
        text.push('\n');
        if line.starts_with("Write Stall (count): cf-") {
            let interval = lines.get(at + 1).and_then(|next| next.strip_prefix("interval: "));
            let interval = interval.and_then(|rest| rest.strip_suffix(" total count")).unwrap_or("0");
            text.push_str(&line_of(line, interval));
        }
    }
    text
}

fn line_of(counts: &str, interval: &str) -> String {
    let of = |name: &str| {
        let found = counts.split([',', ' ']).skip_while(|word| word.strip_suffix(':') != Some(name)).nth(1);
        found.unwrap_or("0").to_owned()
    };
    format!(
        "Stalls(count): {} level0_slowdown, {} level0_slowdown_with_compaction, {} level0_numfiles, \
         {} level0_numfiles_with_compaction, {} stop for pending_compaction_bytes, \
         {} slowdown for pending_compaction_bytes, {} memtable_compaction, {} memtable_slowdown, \
         interval {interval} total count\n",
        of("l0-file-count-limit-delays"),
        of("cf-l0-file-count-limit-delays-with-ongoing-compaction"),
        of("l0-file-count-limit-stops"),
        of("cf-l0-file-count-limit-stops-with-ongoing-compaction"),
        of("pending-compaction-bytes-stops"),
        of("pending-compaction-bytes-delays"),
        of("memtable-limit-stops"),
        of("memtable-limit-delays"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each figure stands where benchmark.sh's fields 2, 6, 10, 14, 18, 20 and its likes look for it; other lines stay.
    #[test]
    fn figures_stand_in_their_places() {
        let stats = "before\nWrite Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 1, \
             cf-l0-file-count-limit-stops-with-ongoing-compaction: 2, l0-file-count-limit-delays: 3, \
             l0-file-count-limit-stops: 4, memtable-limit-delays: 5, memtable-limit-stops: 6, \
             pending-compaction-bytes-delays: 7, pending-compaction-bytes-stops: 8, total-delays: 15, total-stops: 18\n\
             interval: 33 total count\nWrite Stall (count): write-buffer-manager-limit-delays: 9, \
             write-buffer-manager-limit-stops: 9\n";
        let text = add_stall_lines(stats);
        let line = "Stalls(count): 3 level0_slowdown, 1 level0_slowdown_with_compaction, 4 level0_numfiles, \
             2 level0_numfiles_with_compaction, 8 stop for pending_compaction_bytes, \
             7 slowdown for pending_compaction_bytes, 6 memtable_compaction, 5 memtable_slowdown, interval 33 total count\n";
        assert_eq!(text.replace(line, ""), stats);
        assert_eq!(text.matches(line).count(), 1);
    }
}
