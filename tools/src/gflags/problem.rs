//! What can be wrong with a command line, and the block that says it: everything at once, grouped, by name.
//!
//! Owns the wording and the order. Must not know how problems are found: that is [`super::parse`]'s and
//! [`crate::settings`]' affair.

use super::{Flag, Value};

/// One thing that is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// No db_bench has such a flag.
    Unknown {
        /// The name as written, without dashes.
        name: String,
        /// What was probably meant, or a remark on where it stands.
        near: Option<String>,
    },
    /// A flag that upstream has and this program lacks, at a value that matters.
    Unsupported {
        /// The name.
        name: String,
        /// The two lines of the complaint.
        text: String,
    },
    /// A value of the wrong type or outside its range.
    BadValue {
        /// The name.
        name: String,
        /// The whole line.
        text: String,
    },
    /// A word that is no flag and would be misread.
    Stray {
        /// The word.
        word: String,
        /// The whole line.
        text: String,
    },
}

impl Problem {
    /// The complaint about a known but unsupported flag.
    pub fn unsupported(flag: &Flag, value: &Value) -> Self {
        let neutral: Vec<String> = flag
            .neutral()
            .iter()
            .map(|text| if text.is_empty() { "an empty value".to_owned() } else { format!("={text}") })
            .collect();
        let verb = if neutral.len() == 1 { "is" } else { "are" };
        Self::Unsupported {
            name: flag.name.to_owned(),
            text: format!(
                "{}\n      (only {} {verb} accepted; --ignore_unsupported turns this into a warning)",
                Self::not_supported(flag, value),
                neutral.join(" and ")
            ),
        }
    }

    /// The first line of [`Problem::unsupported`], which is also the warning in its place.
    pub fn not_supported(flag: &Flag, value: &Value) -> String {
        format!("--{}={value}: known to {}, not supported by this engine", flag.name, flag.origin.known_to())
    }

    /// Says in which flag file it stands.
    pub(super) fn found_at(&mut self, path: &str, line: usize) {
        let place = format!("{path}, line {line}");
        match self {
            Self::Unknown { near, .. } => {
                *near = Some(match near.take() {
                    Some(hint) => format!("{hint}; {place}"),
                    None => place,
                });
            }
            Self::Unsupported { text, .. } | Self::BadValue { text, .. } | Self::Stray { text, .. } => {
                text.push_str(&format!(" ({place})"));
            }
        }
    }

    fn order(&self) -> (u8, &str) {
        match self {
            Self::Unknown { name, .. } => (0, name),
            Self::Unsupported { name, .. } => (1, name),
            Self::BadValue { name, .. } => (2, name),
            Self::Stray { word, .. } => (3, word),
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { name, near: Some(near) } => write!(f, "unknown flag '--{name}' ({near})"),
            Self::Unknown { name, near: None } => write!(f, "unknown flag '--{name}'"),
            Self::Unsupported { text, .. } | Self::BadValue { text, .. } | Self::Stray { text, .. } => {
                f.write_str(text)
            }
        }
    }
}

/// The block for stderr: a count, then each problem, indented by two.
pub fn render(problems: &[Problem]) -> String {
    let mut sorted: Vec<&Problem> = problems.iter().collect();
    sorted.sort_by_key(|problem| problem.order());
    let noun = if sorted.len() == 1 { "problem" } else { "problems" };
    let mut block = format!("ERROR: {} {noun} on the command line\n", sorted.len());
    for problem in sorted {
        block.push_str(&format!("  {problem}\n"));
    }
    block
}
