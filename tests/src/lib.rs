//! What the integration tests and the benches share: a simulated file system, oracles, seeds.
//!
//! | module | owns |
//! |---|---|
//! | [`rng`] | random numbers whose seeds keep their meaning |
//! | [`sim_fs`] | [`SimFs`](sim_fs::SimFs), which knows what was synced and loses or fails the rest |
//! | [`model`] | the oracle: what a database must hold after what it was told |
//! | [`knobs`] | odd options and keys by seed |
//! | [`pressure`] | databases on a still clock, stops that begin and end when a test says |
//! | [`commit`] | a held leader and batches of an exact size, for tests of the commit queue |
//! | [`cases`] | running seeded cases, and the watchdog |
//! | [`kinds`] | one seeded case each of the kinds of `reliability.md` section 3 |
//! | [`torture`] | the long run over all kinds |
//!
//! Nothing here sleeps. Only the watchdog looks at real time.

pub mod cases;
pub mod commit;
pub mod kinds;
pub mod knobs;
pub mod model;
pub mod pressure;
pub mod rng;
pub mod sim_fs;
pub mod torture;

/// The examples of the guides compile.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../docs/tuning.md")]
    struct Tuning;
    #[doc = include_str!("../../docs/migration.md")]
    struct Migration;
}
