//! Counted instructions beside the committed ones: the file of counts, and when a difference fails the gate.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How far a count may lie from the committed one, in percent, before the gate fails. Faster fails too: bless it.
pub const TOLERANCE_PERCENT: f64 = 3.0;

/// Instructions by workload, as counted or as committed.
pub type Counts = BTreeMap<String, u64>;

/// Reads a file of counts: a workload and its instructions a line; `#` begins a comment.
///
/// # Errors
///
/// Names the line that is not of this form.
pub fn parse(text: &str) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let entry = line.split_once(char::is_whitespace).and_then(|(name, count)| {
            let count: u64 = count.trim().parse().ok()?;
            (count > 0).then_some((name.to_owned(), count))
        });
        let Some((name, count)) = entry else {
            return Err(format!(
                "line {}: expected a workload and its instructions, found '{line}'",
                index + 1
            ));
        };
        if counts.insert(name.clone(), count).is_some() {
            return Err(format!("line {}: {name} is there twice", index + 1));
        }
    }
    Ok(counts)
}

/// The file that holds these counts; `made_with` says under which compiler and valgrind they hold.
pub fn render(counts: &Counts, made_with: &str) -> String {
    let mut text = format!(
        "# Instructions of the workloads of `gate`. Rewritten by:\n\
         #   cargo run --release -p sluicedb-benches --bin gate -- --bless\n\
         # Made with: {made_with}\n"
    );
    for (name, count) in counts {
        let _ = writeln!(text, "{name} {count}");
    }
    text
}

/// How a workload fared.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The workload.
    pub name: String,
    /// Instructions as committed; none if it is new.
    pub committed: Option<u64>,
    /// Instructions now; none if the workload is gone.
    pub counted: Option<u64>,
}

impl Verdict {
    /// By how many percent more instructions are needed than were committed.
    pub fn change_percent(&self) -> Option<f64> {
        let (committed, counted) = (self.committed?, self.counted?);
        Some((counted as f64 / committed as f64 - 1.0) * 100.0)
    }

    /// Whether the gate lets it pass: present on both sides, and within [`TOLERANCE_PERCENT`].
    pub fn passes(&self) -> bool {
        let (Some(committed), Some(counted)) = (self.committed, self.counted) else { return false };
        counted.abs_diff(committed) as f64 * 100.0 <= TOLERANCE_PERCENT * committed as f64
    }

    /// One word for the table.
    pub fn word(&self) -> &'static str {
        match (self.change_percent(), self.committed) {
            (None, None) => "new: bless it",
            (None, Some(_)) => "gone: bless it",
            (Some(_), _) if self.passes() => "ok",
            (Some(change), _) if change > 0.0 => "SLOWER",
            (Some(_), _) => "faster: bless it",
        }
    }
}

/// Puts counted beside committed, by name, for every workload that either side knows.
pub fn compare(committed: &Counts, counted: &Counts) -> Vec<Verdict> {
    let mut names: Vec<&String> = committed.keys().chain(counted.keys()).collect();
    names.sort();
    names.dedup();
    let verdict = |name: &String| Verdict {
        name: name.clone(),
        committed: committed.get(name).copied(),
        counted: counted.get(name).copied(),
    };
    names.into_iter().map(verdict).collect()
}

/// The verdicts as a table for a terminal; `operations` says how many a workload does.
pub fn table(verdicts: &[Verdict], operations: impl Fn(&str) -> Option<u64>) -> String {
    let mut text = format!(
        "{:<16} {:>14} {:>14} {:>10} {:>9}  verdict\n",
        "workload", "committed", "now", "now/op", "change"
    );
    let number = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    for verdict in verdicts {
        let each = verdict
            .counted
            .zip(operations(&verdict.name))
            .map_or("-".to_owned(), |(count, operations)| format!("{}", count / operations.max(1)));
        let change = verdict.change_percent().map_or("-".to_owned(), |change| format!("{change:+.2} %"));
        let _ = writeln!(
            text,
            "{:<16} {:>14} {:>14} {each:>10} {change:>9}  {}",
            verdict.name,
            number(verdict.committed),
            number(verdict.counted),
            verdict.word()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn a_rendered_file_parses_to_the_same_counts() {
        let given = counts(&[("fillseq", 123), ("scan", 4_567_890_123)]);
        assert_eq!(parse(&render(&given, "rustc 1.95.0")), Ok(given));
    }

    #[test]
    fn a_line_of_another_form_is_named() {
        for text in ["fillseq", "fillseq x", "fillseq 0", "fillseq -1", "a 1\nb"] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(&format!("line {}", text.lines().count())), "{error}");
        }
        assert!(parse("a 1\na 2").expect_err("twice").contains("twice"));
        assert_eq!(parse("# only a comment\n\n  a 1 # of an a\n"), Ok(counts(&[("a", 1)])));
    }

    #[test]
    fn three_percent_either_way_pass_and_more_does_not() {
        let committed = counts(&[("a", 100_000)]);
        for (now, passes, word) in [
            (100_000, true, "ok"),
            (103_000, true, "ok"),
            (97_000, true, "ok"),
            (103_001, false, "SLOWER"),
            (96_999, false, "faster: bless it"),
        ] {
            let verdicts = compare(&committed, &counts(&[("a", now)]));
            assert_eq!((verdicts[0].passes(), verdicts[0].word()), (passes, word), "{now}");
        }
    }

    #[test]
    fn a_workload_that_one_side_lacks_fails() {
        let verdicts = compare(&counts(&[("gone", 1)]), &counts(&[("new", 1)]));
        let found: Vec<_> = verdicts.iter().map(|v| (v.name.as_str(), v.passes(), v.word())).collect();
        assert_eq!(found, [("gone", false, "gone: bless it"), ("new", false, "new: bless it")]);
    }
}
