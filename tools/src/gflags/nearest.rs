//! "Did you mean": the name nearest to a misspelt one.
//!
//! Owns the edit distance and how far a suggestion may be off. Knows names only, not what they are for.

use super::FLAGS;

/// `did you mean --NAME?`, when some flag is near enough.
pub fn suggest(name: &str) -> Option<String> {
    let name = name.replace('-', "_");
    nearest(&name, FLAGS.iter().map(|flag| flag.name)).map(|near| format!("did you mean --{near}?"))
}

/// The candidate with the least edit distance to `name`: at most 2, or 3 for names over 12 letters.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = if name.len() > 12 { 3 } else { 2 };
    candidates
        .map(|candidate| (distance(name, candidate), candidate))
        // A name that shares no letter is no misspelling of a very short one.
        .filter(|(far, candidate)| *far <= limit && *far < candidate.len().min(name.len()))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Near names are found, far ones are not, and long names may be further off.
    #[test]
    fn suggestions_stay_near() {
        assert_eq!(suggest("write_bufer_size").as_deref(), Some("did you mean --write_buffer_size?"));
        assert_eq!(suggest("zzzz"), None);
        assert_eq!(suggest("thread").as_deref(), Some("did you mean --threads?"));
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
