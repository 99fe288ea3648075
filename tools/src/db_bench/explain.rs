//! `--explain_flags`: what each given flag means here, one tab-separated row each.
//!
//! Owns the row: name, value as given, status, what it is bound to, what it came to. Runs nothing.

use crate::gflags::{CommandLine, Status};
use crate::settings::{Settings, bindings};

/// The rows, in the order the flags were given; `--explain_flags` itself is left out.
pub fn rows(line: &CommandLine, settings: &Settings) -> String {
    let mut text = String::new();
    for given in line.given.iter().filter(|given| given.flag.name != "explain_flags") {
        let flag = given.flag;
        let (bound, resolved) = match (flag.status, bindings::find(flag.name)) {
            (Status::Works, Some(binding)) => (binding.bound, (binding.show)(settings)),
            (Status::Works, None) => ("the tool", given.value.to_string()),
            (Status::Accepted, _) => ("nothing (no effect in this engine)", given.value.to_string()),
            (Status::Known, _) if flag.is_neutral(&given.value) => {
                ("nothing (neutral value)", given.value.to_string())
            }
            (Status::Known, _) => ("nothing (not supported by this engine)", given.value.to_string()),
        };
        text.push_str(&format!(
            "{}\t{}\t{}\t{bound}\t{resolved}\n",
            flag.name,
            given.text,
            flag.status.word()
        ));
    }
    text
}
