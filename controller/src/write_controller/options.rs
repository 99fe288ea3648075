//! [`ControllerOptions`]: the settings of one controller, and their ranges.

use std::time::Duration;

/// An option outside its range. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid option {name}: {given} is outside {range}")]
pub struct InvalidOption {
    /// The option's name.
    pub name: &'static str,
    /// What is allowed, in words.
    pub range: &'static str,
    /// What was given.
    pub given: String,
}

/// Settings of a [`WriteController`](crate::WriteController).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerOptions {
    /// The rate of which delays are fractions.
    ///
    /// Unit: bytes per second. Default: 0, which means 16 MiB/s. Changeable live:
    /// [`set_max_rate`](crate::WriteController::set_max_rate). More: a weaker brake at every step.
    pub delayed_write_rate: u64,
    /// The longest wait that is not slept, its bytes staying on the books.
    ///
    /// Unit: time. Default: 100 us. Range: 10 us to 10 ms. Changeable live: no. More: fewer, longer sleeps.
    pub delay_quantum: Duration,
    /// What an idle pacer may save up, as time at the present rate.
    ///
    /// Unit: time. Default: 10 ms. Range: 0 to 1 s. Changeable live: no. More: larger bursts after a pause.
    pub delay_credit: Duration,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            delayed_write_rate: 0,
            delay_quantum: Duration::from_micros(100),
            delay_credit: Duration::from_millis(10),
        }
    }
}

impl ControllerOptions {
    /// The defaults with another maximum rate, in bytes per second.
    pub fn with_rate(delayed_write_rate: u64) -> Self {
        Self { delayed_write_rate, ..Self::default() }
    }

    /// Checks every range above; the error names the first option outside its range.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`] as said.
    pub fn validate(&self) -> Result<(), InvalidOption> {
        let check = |holds: bool, name, range, given: Duration| {
            if holds { Ok(()) } else { Err(InvalidOption { name, range, given: format!("{given:?}") }) }
        };
        let quantum = Duration::from_micros(10)..=Duration::from_millis(10);
        check(quantum.contains(&self.delay_quantum), "delay_quantum", "10 us to 10 ms", self.delay_quantum)?;
        check(self.delay_credit <= Duration::from_secs(1), "delay_credit", "0 to 1 s", self.delay_credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pressure O1`, the controller's part: each end of a range is accepted, one beyond is refused by name.
    #[test]
    fn ranges_hold_at_their_ends() {
        let with = |quantum, credit| {
            let options =
                ControllerOptions { delay_quantum: quantum, delay_credit: credit, ..Default::default() };
            options.validate().map_err(|refused| refused.name)
        };
        let (us, s) = (Duration::from_micros, Duration::from_secs);
        assert_eq!((with(us(10), s(0)), with(us(10_000), s(1))), (Ok(()), Ok(())));
        assert_eq!((with(us(9), s(0)), with(us(10_001), s(0))), (Err("delay_quantum"), Err("delay_quantum")));
        assert_eq!(with(us(10), s(1) + us(1)), Err("delay_credit"));
        assert_eq!(ControllerOptions::default().validate(), Ok(()));
    }
}
