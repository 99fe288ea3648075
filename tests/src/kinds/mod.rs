//! One seeded case each of the kinds of `reliability.md` section 3, as functions: the tests call them with small
//! counts, a long run with large ones.

pub mod crash;
pub mod crash_families;
pub mod crash_writers;
pub mod damage;
pub mod faults;
pub mod kill;
pub mod law;
pub mod model;
pub mod side_doors;
mod stall_stage;
pub mod stalls;
pub mod tidy;
pub mod torn;
