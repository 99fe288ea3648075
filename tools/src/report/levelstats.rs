//! `levelstats`: files and MB by level, one table per column family.
//!
//! Owns the table's bytes and the order: the default family in the shape everybody knows, then the others under
//! their names. Must not know where the figures come from.

use sluicedb::LevelStats;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The level's number.
    pub level: u32,
    /// Its files.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
}

impl From<&LevelStats> for Row {
    fn from(level: &LevelStats) -> Self {
        Self { level: level.level, files: level.files, bytes: level.bytes }
    }
}

/// The table of one family, with its empty last line.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for row in rows {
        let megabytes = row.bytes as f64 / 1_048_576.0;
        text.push_str(&format!("{:3} {:8} {megabytes:8.0}\n", row.level, row.files));
    }
    text.push('\n');
    text
}

/// The tables of one database: the default family's under an empty line, the others under their names.
pub fn tables<'a>(families: impl Iterator<Item = (&'a str, Vec<Row>)>) -> String {
    let mut text = String::new();
    for (at, (name, rows)) in families.enumerate() {
        text.push_str(&if at == 0 { "\n".to_owned() } else { format!("[{name}]\n") });
        text.push_str(&table(&rows));
    }
    text
}

/// The line above each of several databases.
pub fn database_heading(path: &std::path::Path) -> String {
    format!("\n==== DB: {} ===\n", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented block, to the byte, and another family under its name (`db-bench DB15`).
    #[test]
    fn the_documented_tables_are_printed() {
        let megabytes = [(3, 178), (4, 252), (38, 2498), (305, 20_133), (0, 0), (0, 0), (0, 0)];
        let rows: Vec<Row> = (0..)
            .zip(megabytes)
            .map(|(level, (files, megabytes))| Row { level, files, bytes: megabytes << 20 })
            .collect();
        let other = vec![Row { level: 0, files: 1, bytes: (1 << 20) * 3 / 4 }];
        let expected = "
Level Files Size(MB)
--------------------
  0        3      178
  1        4      252
  2       38     2498
  3      305    20133
  4        0        0
  5        0        0
  6        0        0

[column_family_name_000001]
Level Files Size(MB)
--------------------
  0        1        1

";
        assert_eq!(tables([("default", rows), ("column_family_name_000001", other)].into_iter()), expected);
        let heading = database_heading(std::path::Path::new("/data/0"));
        assert_eq!(heading, "\n==== DB: /data/0 ===\n");
    }
}
