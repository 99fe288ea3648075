//! The command line of `torture`: `--kind`, `--seconds`, `--seed`, `--json`.
//!
//! What a kind does is not known here, only which names there are.

use super::kinds::{ALL, Kind};

/// Seeds stay below this, so that any reader of JSON keeps them whole.
pub(super) const SEED_LIMIT: u64 = 1 << 53;

/// How to call the runner.
pub const USAGE: &str = "usage: torture --kind R1,R2,...|all --seconds N [--seed S] [--json]
  --kind     kinds of reliability.md section 3; all = every one that is built
  --seconds  time for each kind; the case that runs is finished; 0 = one case
  --seed     base seed below 2^53, decimal or 0x...; drawn when absent
  --json     one object per kind and line on stdout, nothing else there";

/// What was asked for.
#[derive(Debug)]
pub struct Args {
    /// The kinds to run, in the order asked.
    pub kinds: Vec<&'static Kind>,
    /// Names of kinds that `all` leaves out, since they are not built yet.
    pub missing: Vec<&'static str>,
    /// Seconds for each kind; 0 = one case.
    pub seconds: u64,
    /// The base seed, if one was named.
    pub seed: Option<u64>,
    /// Whether results are JSON.
    pub json: bool,
}

impl Args {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    ///
    /// What is wrong with them, in a sentence.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut kinds, mut seconds, mut seed, mut json) = (None, None, None, false);
        while let Some(arg) = args.next() {
            let (flag, inline) = match arg.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let mut value = || inline.clone().or_else(|| args.next()).ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--kind" => kinds = Some(value()?),
                "--seconds" => seconds = Some(number(&flag, &value()?)?),
                "--seed" => seed = Some(number(&flag, &value()?)?),
                "--json" => json = true,
                other => return Err(format!("unknown argument '{other}'")),
            }
        }
        if let Some(seed) = seed.filter(|seed| *seed >= SEED_LIMIT) {
            return Err(format!("--seed {seed} is not below 2^53"));
        }
        let (kinds, missing) = select(&kinds.ok_or("--kind is missing")?)?;
        Ok(Self { kinds, missing, seconds: seconds.ok_or("--seconds is missing")?, seed, json })
    }
}

fn number(flag: &str, text: &str) -> Result<u64, String> {
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    parsed.map_err(|_| format!("{flag} is a number, not '{text}'"))
}

type Selection = (Vec<&'static Kind>, Vec<&'static str>);

fn select(list: &str) -> Result<Selection, String> {
    if list == "all" {
        let (built, missing): (Vec<_>, Vec<_>) = ALL.iter().partition(|kind| kind.is_built());
        return Ok((built, missing.into_iter().map(|kind| kind.name).collect()));
    }
    let find = |name: &str| match ALL.iter().find(|kind| kind.name == name) {
        None => Err(format!("there is no kind '{name}'; kinds are R1 to R21")),
        Some(kind) if !kind.is_built() => Err(format!("kind {name} is not built yet")),
        Some(kind) => Ok(kind),
    };
    Ok((list.split(',').map(find).collect::<Result<_, _>>()?, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    /// What the specification shows is understood; everything else is refused by name.
    #[test]
    fn the_command_line_is_the_specified_one() {
        let args = parse("--kind R7,R1 --seconds 0 --seed 0x10 --json").unwrap();
        assert_eq!(args.kinds.iter().map(|kind| kind.name).collect::<Vec<_>>(), ["R7", "R1"]);
        assert_eq!((args.seconds, args.seed, args.json), (0, Some(16), true));
        let all = parse("--seconds=5 --kind=all").unwrap();
        assert_eq!(all.kinds.len() + all.missing.len(), 21);
        for (line, complaint) in [
            ("--kind R1", "--seconds is missing"),
            ("--seconds 1", "--kind is missing"),
            ("--kind R22 --seconds 1", "there is no kind 'R22'"),
            ("--kind R1 --seconds x", "--seconds is a number"),
            ("--kind R1 --seconds 1 --seed 9007199254740992", "is not below 2^53"),
            ("--kind R1 --seconds 1 --quick", "unknown argument '--quick'"),
            ("--kind R1 --seconds", "--seconds needs a value"),
        ] {
            let found = parse(line).unwrap_err();
            assert!(found.contains(complaint), "{line}: {found}");
        }
    }
}
