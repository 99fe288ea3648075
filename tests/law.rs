//! The law of the delay, table by table: `reliability R15`, through the public API.
//!
//! The tables are in [`sluicedb_tests::kinds::law`].

use sluicedb_tests::kinds::law::TABLES;

/// `reliability R15`, `U5`, `U6`: 99 steps, the strictest of many sources, many controllers, one publication per change, no
/// division by zero at a tiny quota.
#[test]
fn every_table_of_the_law_holds() {
    for (name, table) in TABLES {
        table().unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}
