//! [`Pressure`] and [`DelayStep`]: the one vocabulary of the meter and the brake.
//!
//! `Normal < Delayed(1) < ... < Delayed(99) < Stopped`, and one small code for each (0, 1..=99, 100), so that
//! state and step fit one atomic integer and no reader sees a mixed pair. Who produces pressure, and what is done
//! about it, is not known here.

use std::fmt;
use std::num::NonZeroU8;

/// How far between full speed and a stop: 1 (1 % of the rate is taken away) to 99 (1 % is left).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DelayStep(NonZeroU8);

impl DelayStep {
    /// The gentlest step, 1.
    pub const MIN: Self = Self(NonZeroU8::MIN);
    /// The last step before a stop, 99.
    pub const MAX: Self = Self(match NonZeroU8::new(99) {
        Some(max) => max,
        None => unreachable!(),
    });

    /// The step `step`; `None` outside 1..=99.
    pub const fn new(step: u8) -> Option<Self> {
        match NonZeroU8::new(step) {
            Some(step) if step.get() <= Self::MAX.0.get() => Some(Self(step)),
            _ => None,
        }
    }

    /// The step nearest to `step` within 1..=99.
    pub const fn clamped(step: u64) -> Self {
        let step = if step > 99 { 99 } else { step as u8 };
        match NonZeroU8::new(step) {
            Some(step) => Self(step),
            None => Self::MIN,
        }
    }

    /// The number, 1..=99.
    pub const fn get(self) -> u8 {
        self.0.get()
    }
}

impl fmt::Debug for DelayStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DelayStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a source of pressure asks of writers, as a manager of memory says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pressure {
    /// Full speed.
    #[default]
    Normal,
    /// At most `(100 - step) / 100` of the maximum rate.
    Delayed(DelayStep),
    /// No writer passes.
    Stopped,
}

impl Pressure {
    /// 0, 1..=99 or 100.
    pub const fn code(self) -> u8 {
        match self {
            Self::Normal => 0,
            Self::Delayed(step) => step.get(),
            Self::Stopped => 100,
        }
    }

    /// The pressure of a [`code`](Self::code); `None` for numbers above 100.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Normal),
            100 => Some(Self::Stopped),
            _ => match DelayStep::new(code) {
                Some(step) => Some(Self::Delayed(step)),
                None => None,
            },
        }
    }

    /// The state without its step.
    pub const fn state(self) -> State {
        match self {
            Self::Normal => State::Normal,
            Self::Delayed(_) => State::Delayed,
            Self::Stopped => State::Stopped,
        }
    }

    /// The step, 0 unless delayed.
    pub const fn step(self) -> u8 {
        match self {
            Self::Delayed(step) => step.get(),
            _ => 0,
        }
    }
}

/// Normal, delayed or stopped. A change of it is a *transition*; a change of the step alone is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Full speed.
    #[default]
    Normal,
    /// Slowed down.
    Delayed,
    /// Nobody passes.
    Stopped,
}

impl State {
    /// `normal`, `delayed` or `stopped`: the words of LOG lines and properties.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Delayed => "delayed",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes are 0, 1..=99, 100 and rise with the severity; nothing else is a code.
    #[test]
    fn codes_are_one_to_one_and_ordered() {
        let all: Vec<Pressure> = (0..=100).map(|code| Pressure::from_code(code).unwrap()).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(all.iter().enumerate().all(|(code, pressure)| usize::from(pressure.code()) == code));
        assert!((101..=255).all(|code| Pressure::from_code(code).is_none()));
        assert_eq!((DelayStep::new(0), DelayStep::new(100)), (None, None));
        assert_eq!((DelayStep::clamped(0), DelayStep::clamped(1_000)), (DelayStep::MIN, DelayStep::MAX));
    }
}
