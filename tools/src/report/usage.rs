//! What the write buffer manager holds, as the tool shows it.
//!
//! Owns the view of one moment: bytes by state, quota, pressure. Read from properties, so that this tool sees
//! nothing that another program could not see. Must not know the pressure law.

use sluicedb::Db;

use crate::workload::target::Target;

/// One look at a manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that count against the quota.
    pub usage: u64,
    /// The quota; 0 = off.
    pub quota: u64,
    /// Bytes of memtables that still take writes.
    pub mutable: u64,
    /// Bytes waiting for a flush.
    pub sealed: u64,
    /// Bytes being flushed.
    pub flushing: u64,
    /// Bytes flushed, but still held by readers.
    pub pinned: u64,
    /// `normal`, `delayed` or `stopped`.
    pub state: String,
    /// The delay step, when delayed.
    pub step: u64,
    /// Bytes per second, when delayed.
    pub rate: u64,
    /// Time spent delayed, so far.
    pub delayed_micros: u64,
    /// Time spent stopped, so far.
    pub stopped_micros: u64,
    /// The longest stop so far.
    pub longest_stop_micros: u64,
    /// Bytes by database, in the order in which they were opened.
    pub by_db: Vec<u64>,
}

impl Usage {
    /// The manager of `db`, now.
    pub fn of(db: &Db) -> Self {
        let mut usage = Self { state: "normal".to_owned(), ..Self::default() };
        for property in ["sluicedb.wbm", "sluicedb.pressure"] {
            if let Some(text) = db.property(property) {
                usage.read(&text);
            }
        }
        usage
    }

    /// Takes what it knows from words `key: value`, `key=value` or `key value`; the first mention of a key counts.
    fn read(&mut self, text: &str) {
        let mut words =
            text.split(|c: char| c.is_whitespace() || ",;:=()".contains(c)).filter(|word| !word.is_empty());
        let of_database = |line: &str| {
            line.strip_prefix("database ")?.rsplit_once(": usage ").map(|(_, rest)| leading(rest))
        };
        self.by_db.extend(text.lines().filter_map(of_database));
        let mut seen = Vec::new();
        let mut key = words.next();
        while let (Some(name), Some(value)) = (key, words.next()) {
            key = Some(value);
            let name = name.rsplit('.').next().unwrap_or_default();
            if seen.contains(&name) {
                continue;
            }
            let number = value.parse();
            match (name, number) {
                ("state", _) => value.clone_into(&mut self.state),
                ("usage", Ok(number)) => self.usage = number,
                ("quota" | "of", Ok(number)) => self.quota = number,
                ("mutable", Ok(number)) => self.mutable = number,
                ("sealed" | "immutable", Ok(number)) => self.sealed = number,
                ("flushing", Ok(number)) => self.flushing = number,
                ("pinned", Ok(number)) => self.pinned = number,
                ("step", Ok(number)) => self.step = number,
                ("rate", Ok(number)) => self.rate = number,
                ("delayed-micros", Ok(number)) => self.delayed_micros = number,
                ("stopped-micros", Ok(number)) => self.stopped_micros = number,
                ("longest-stop-micros", Ok(number)) => self.longest_stop_micros = number,
                _ => continue,
            }
            seen.push(name);
        }
    }

    /// `812646400 OF 1073741824`, as the lines around each benchmark have it.
    pub fn of_quota(&self) -> String {
        format!("{} OF {}", self.usage, self.quota)
    }
}

/// The number that `text` begins with, else 0.
fn leading(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

/// The line of the watchdog: who holds the memory and what runs, when no operation ends.
pub fn stuck_line(seconds: u64, target: &Target) -> String {
    let db = &target.dbs[0].db;
    let usage = Usage::of(db);
    let count = |name: &str| {
        let counts = target.dbs.iter().filter_map(|open| open.db.property_int(&format!("rocksdb.{name}")));
        counts.sum::<u64>()
    };
    let sources = db.property("sluicedb.pressure-sources").unwrap_or_default();
    let sources = sources.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "watchdog: no operation finished for {seconds} s: usage {} of {}, mutable {}, immutable {}, pinned {}, \
         state {}, flushes running {}, waiting {}, compactions running {}, write stopped {}, sources [{sources}]\n",
        usage.usage,
        usage.quota,
        usage.mutable,
        usage.sealed + usage.flushing,
        usage.pinned,
        usage.state,
        count("num-running-flushes"),
        count("mem-table-flush-pending"),
        count("num-running-compactions"),
        count("is-write-stopped"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines, words and prefixed names are understood; what is not known is skipped.
    #[test]
    fn properties_are_read_in_any_of_their_shapes() {
        let mut usage = Usage::default();
        usage.read("quota: 100\nusage: 70\nmutable=40\nsluicedb.wbm.sealed: 30\nnonsense\nother: x\n");
        usage.read("max-rate: 9, state: delayed, step: 1, rate: 5");
        assert_eq!((usage.quota, usage.usage, usage.mutable, usage.sealed), (100, 70, 40, 30));
        assert_eq!((usage.state.as_str(), usage.step, usage.rate), ("delayed", 1, 5));
        assert_eq!(usage.of_quota(), "70 OF 100");

        let mut usage = Usage::default();
        usage.read("usage: 9\ndatabase /a: usage 4, pinned 0\ndatabase /b: usage 5, pinned 1\nlongest-stop-micros: 7\n");
        assert_eq!((usage.usage, usage.by_db, usage.longest_stop_micros), (9, vec![4, 5], 7));

        let mut usage = Usage::default();
        usage.read(
            "WBM: usage 812646400 of 1073741824 (75.7 percent), mutable 402653184, immutable 409993216, pinned 0, \
             state delayed, step 18, rate 440234147 B/s\nWBM stall: delayed 00:00:3.412 H:M:S, 41 delay episodes\n",
        );
        let bytes = (usage.usage, usage.quota, usage.mutable, usage.sealed, usage.step, usage.rate);
        assert_eq!(bytes, (812_646_400, 1_073_741_824, 402_653_184, 409_993_216, 18, 440_234_147));
    }
}
