//! A stall always ends or returns an error: `reliability R14`, its twelve scenarios with real threads.
//!
//! What each scenario does and what it must leave is in [`sluicedb_tests::kinds::stalls`]; a hang ends the process and names
//! the seed.

use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::stalls::{Scenario, run_scenario};

fn scenario(test: &str, scenario: Scenario, count: u64) {
    run_cases(test, 0, count, |seed| run_scenario(scenario, seed));
}

/// `reliability R14`: one family fills the manager.
#[test]
fn one_family_fills_the_manager() {
    scenario("one_family_fills_the_manager", Scenario::OneFamily, 60);
}

/// `reliability R14`, `U1`: 28 small families of 3 databases fill it.
#[test]
fn some_families_fill_the_manager() {
    scenario("some_families_fill_the_manager", Scenario::SomeFamilies, 60);
}

/// `reliability R14`, `U2`: 1,000 nearly empty families fill it.
#[test]
fn a_thousand_families_fill_the_manager() {
    scenario("a_thousand_families_fill_the_manager", Scenario::ManyFamilies, 10);
}

/// `reliability R14`, `U2`, `U4`: an idle database holds the memory of eight.
#[test]
fn an_idle_database_holds_the_memory() {
    scenario("an_idle_database_holds_the_memory", Scenario::IdleHolder, 60);
}

/// `reliability R14`: batches larger than the quota.
#[test]
fn batches_are_larger_than_the_quota() {
    scenario("batches_are_larger_than_the_quota", Scenario::LargeBatches, 60);
}

/// `reliability R14`, `U3`: one thread feeds three databases in turn.
#[test]
fn one_thread_feeds_three_databases() {
    scenario("one_thread_feeds_three_databases", Scenario::OneThread, 60);
}

/// `reliability R14`, `U1`: readers hold every memtable.
#[test]
fn readers_pin_the_memtables() {
    scenario("readers_pin_the_memtables", Scenario::PinnedMemtables, 60);
}

/// `reliability R14`, `pressure L4`: a database fails during the stall.
#[test]
fn a_database_fails_during_the_stall() {
    scenario("a_database_fails_during_the_stall", Scenario::BackgroundError, 60);
}

/// `reliability R14`, `pressure L9`: a database is closed during the stall.
#[test]
fn a_database_closes_during_the_stall() {
    scenario("a_database_closes_during_the_stall", Scenario::Close, 60);
}

/// `reliability R14`, `pressure L9`: the family that holds the memory is dropped during the stall.
#[test]
fn a_family_is_dropped_during_the_stall() {
    scenario("a_family_is_dropped_during_the_stall", Scenario::DropFamily, 60);
}

/// `reliability R14`, `pressure L11`: the quota is lowered below what is in use.
#[test]
fn the_quota_is_lowered_below_what_is_used() {
    scenario("the_quota_is_lowered_below_what_is_used", Scenario::LowerQuota, 60);
}

/// `reliability R14`, `U7`, `pressure L3`: the flush that would end the stall fails.
#[test]
fn the_flush_that_would_end_it_fails() {
    scenario("the_flush_that_would_end_it_fails", Scenario::FlushFails, 60);
}
