//! Options by name: one table a struct, and changes while a database is open.
//!
//! A table has every option's name, how its text is read and shown ([`super::text`]), and whether it may change live. A
//! change names several; all are applied to a copy, the copy is checked as a whole, and only then does it take effect:
//! never half of it. Whoever holds the options in force, and what follows from a change, is not known here.

use super::text::{
    Shown, bytes, compaction_style, compression, fraction, limit, memtable_rep, micros, number, rate,
    read_mode, recovery_mode, table_writes, truth,
};
use super::{ColumnFamilyOptions, DbOptions};
use crate::error::{Error, Result};

/// One option of `T`.
pub(super) struct Named<T> {
    pub(super) name: &'static str,
    pub(super) kind: Kind<T>,
}

/// How an option stands to text.
pub(super) enum Kind<T> {
    /// A value that may change while the database is open.
    Live(Text<T>),
    /// A value that is fixed while the database is open.
    Fixed(Text<T>),
    /// No value but a part of the program, such as a cache: it has no text.
    Component,
}

/// An option's text, both ways.
pub(super) struct Text<T> {
    /// Reads a text into the option's field, or says what is wrong with it.
    pub(super) read: fn(&mut T, &str) -> Result<(), String>,
    pub(super) show: fn(&T) -> String,
}

/// The options of `$options`: live ones with how they are read, then fixed ones, then those without a text.
macro_rules! table {
    ($options:ty; $($live:ident: $read_live:expr,)*; $($fixed:ident: $read_fixed:expr,)*; $($component:ident,)*) => {
        &[
            $(Named { name: stringify!($live), kind: Kind::Live(table!(@text $options, $live, $read_live)) },)*
            $(Named { name: stringify!($fixed), kind: Kind::Fixed(table!(@text $options, $fixed, $read_fixed)) },)*
            $(Named { name: stringify!($component), kind: Kind::Component },)*
        ]
    };
    (@text $options:ty, $field:ident, $read:expr) => {
        Text {
            read: |options: &mut $options, text: &str| {
                options.$field = $read(text)?;
                Ok(())
            },
            show: |options: &$options| Shown::shown(&options.$field),
        }
    };
}

pub(super) const COLUMN_FAMILY: &[Named<ColumnFamilyOptions>] = table! {
    ColumnFamilyOptions;
    write_buffer_size: bytes,
    max_write_buffer_number: number,
    level0_file_num_compaction_trigger: number,
    level0_slowdown_writes_trigger: number,
    level0_stop_writes_trigger: number,
    soft_pending_compaction_bytes_limit: bytes,
    hard_pending_compaction_bytes_limit: bytes,
    disable_auto_compactions: truth,
    periodic_compaction_seconds: number,
    tombstone_density_percent: number,
    universal_size_ratio: number,
    universal_min_merge_width: number,
    universal_max_size_amplification_percent: number,
    fifo_max_table_files_size: bytes,
    ttl: number,
    max_bytes_for_level_base: bytes,
    max_bytes_for_level_multiplier: fraction,
    target_file_size_base: bytes,
    target_file_size_multiplier: number,
    compression: compression,
    min_level_to_compress: number,
    block_size: bytes,
    block_restart_interval: number,
    bloom_bits_per_key: fraction,
    ;
    compaction_style: compaction_style,
    memtable_rep: memtable_rep,
    min_write_buffer_number_to_merge: number,
    max_write_buffer_size_to_maintain: bytes,
    num_levels: number,
    level_compaction_dynamic_level_bytes: truth,
    ;
    compaction_filter,
};

pub(super) const DATABASE: &[Named<DbOptions>] = table! {
    DbOptions;
    allow_stall: truth,
    cost_write_buffer_to_cache: truth,
    delay_start_percent: number,
    delayed_write_rate: rate,
    stall_timeout: limit,
    write_timeout: micros,
    max_total_wal_size: bytes,
    ;
    create_if_missing: truth,
    error_if_exists: truth,
    create_missing_column_families: truth,
    db_write_buffer_size: bytes,
    initiate_flushes: truth,
    flush_progress_credit: truth,
    desync_write_buffers: truth,
    strict_flush_priority: truth,
    smooth_writes: truth,
    max_parallel_flushes: number,
    enforce_write_buffer_manager_during_recovery: truth,
    max_background_flushes: number,
    max_background_compactions: number,
    max_subcompactions: number,
    table_writes: table_writes,
    commit_queue_bytes: bytes,
    commit_group_bytes: bytes,
    commit_group_count: number,
    group_queue_limit: number,
    queue_group_bytes: bytes,
    linger: micros,
    parallel_insert_bytes: bytes,
    async_waiting_bytes: bytes,
    max_batch_bytes: bytes,
    wal_segment_bytes: bytes,
    wal_buffer_bytes: bytes,
    wal_sync_interval: micros,
    wal_sync_bytes: bytes,
    wal_sync_on_idle: truth,
    manifest_save_interval: micros,
    manifest_min_gap: micros,
    job_ring_slots: number,
    recovery_mode: recovery_mode,
    block_cache_size: bytes,
    read_mode: read_mode,
    max_open_files: number,
    max_read_threads: number,
    ;
    block_cache,
    write_buffer_manager,
    write_controller,
    rate_limiter,
    listeners,
    file_system,
    clock,
};

impl ColumnFamilyOptions {
    /// These options with the named ones changed, checked as a whole.
    pub(crate) fn with_changes(&self, changes: &[(&str, &str)]) -> Result<Self> {
        let mut next = self.clone();
        apply(COLUMN_FAMILY, &mut next, changes)?;
        next.validate()?;
        Ok(next)
    }
}

impl DbOptions {
    /// The same for the options of a database.
    pub(crate) fn with_changes(&self, changes: &[(&str, &str)]) -> Result<Self> {
        let mut next = self.clone();
        apply(DATABASE, &mut next, changes)?;
        next.validate()?;
        Ok(next)
    }
}

fn apply<T>(table: &[Named<T>], options: &mut T, changes: &[(&str, &str)]) -> Result<()> {
    for (at, (name, text)) in changes.iter().enumerate() {
        let Some(named) = table.iter().find(|named| named.name == *name) else {
            return Err(Error::invalid("option", unknown(table, name)));
        };
        let Kind::Live(text_of_it) = &named.kind else {
            let why = "it is fixed while the database is open; close it and open it with the new value";
            return Err(Error::invalid(named.name, why));
        };
        if changes[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(Error::invalid(named.name, "it is given twice in one change"));
        }
        (text_of_it.read)(options, text).map_err(|why| Error::invalid(named.name, why))?;
    }
    Ok(())
}

/// What is said of a name that is none: the nearest one, if any is near.
pub(super) fn unknown<T>(table: &[Named<T>], name: &str) -> String {
    let nearest = table.iter().map(|named| (distance(named.name, name), named.name)).min();
    match nearest {
        Some((away, nearest)) if away <= nearest.len() / 3 => {
            format!("there is none called '{name}'; did you mean '{nearest}'?")
        }
        _ => format!("there is none called '{name}'"),
    }
}

/// Letters to insert, delete or replace to make one name of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Compression;
    use super::*;

    fn refused(changes: &[(&str, &str)]) -> String {
        ColumnFamilyOptions::default().with_changes(changes).unwrap_err().to_string()
    }

    /// Several options change together; texts may carry binary suffixes.
    #[test]
    fn a_change_names_several() {
        let changes =
            [("write_buffer_size", "8M"), ("level0_stop_writes_trigger", "50"), ("compression", "none")];
        let next = ColumnFamilyOptions::default().with_changes(&changes).unwrap();
        assert_eq!((next.write_buffer_size, next.level0_stop_writes_trigger), (8 << 20, 50));
        assert_eq!(next.compression, Compression::None);
        let next = DbOptions::default().with_changes(&[("stall_timeout", "5000000"), ("allow_stall", "0")]);
        let next = next.unwrap();
        assert_eq!((next.stall_timeout, next.allow_stall), (Some(Duration::from_secs(5)), false));
    }

    /// `pressure O2`, `pressure O3`, refusals by name: unknown with the nearest, fixed, given twice, unreadable, out of range alone or
    /// together.
    #[test]
    fn refusals_name_the_option() {
        for (changes, expected) in [
            (
                vec![("level0_stop_write_trigger", "1")],
                "invalid option: there is none called 'level0_stop_write_trigger'; did you mean \
                 'level0_stop_writes_trigger'?",
            ),
            (vec![("xyzzy", "1")], "invalid option: there is none called 'xyzzy'"),
            (
                vec![("num_levels", "3")],
                "invalid num_levels: it is fixed while the database is open; close it and open it with the new value",
            ),
            (
                vec![("block_size", "4096"), ("block_size", "8192")],
                "invalid block_size: it is given twice in one change",
            ),
            (
                vec![("write_buffer_size", "many")],
                "invalid write_buffer_size: 'many' is not a number of bytes, such as 65536 or 64K",
            ),
            (
                vec![("write_buffer_size", "0")],
                "invalid write_buffer_size: 0 is outside its range, at least 65536 bytes",
            ),
            (
                vec![("level0_slowdown_writes_trigger", "9"), ("level0_stop_writes_trigger", "8")],
                "invalid level0_slowdown_writes_trigger: 9 is outside its range, 1 to level0_stop_writes_trigger",
            ),
            (
                vec![("hard_pending_compaction_bytes_limit", "1")],
                "invalid hard_pending_compaction_bytes_limit: 1 is outside its range, 0 (never) or at least \
                 soft_pending_compaction_bytes_limit",
            ),
        ] {
            assert_eq!(refused(&changes), expected);
        }
        for name in ["delay_start_percent", "max_total_wal_size", "write_timeout"] {
            let refused = DbOptions::default().with_changes(&[(name, "0")]).unwrap_err();
            assert!(matches!(refused, Error::InvalidArgument { what, .. } if what == name), "{refused}");
        }
        let refused = DbOptions::default().with_changes(&[("db_write_buffer_size", "1G")]).unwrap_err();
        assert!(refused.to_string().contains("fixed while"), "{refused}");
    }

    /// Every field of both structs is in its table, by its name: the text of `Debug` names them all.
    #[test]
    fn the_tables_name_every_option() {
        fn names<T>(table: &[Named<T>]) -> Vec<&'static str> {
            table.iter().map(|named| named.name).collect()
        }
        fn fields(debug: &str) -> Vec<String> {
            let field = |line: &str| {
                let name = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' '))?;
                Some(name.split_once(": ")?.0.to_owned())
            };
            debug.lines().filter_map(field).collect()
        }
        let family = fields(&format!("{:#?}", ColumnFamilyOptions::default()));
        assert!(family.len() > 15, "{family:?}");
        for field in family {
            assert!(names(COLUMN_FAMILY).contains(&field.as_str()), "{field}");
        }
        let database = fields(&format!("{:#?}", DbOptions::default()));
        assert!(database.len() > 25, "{database:?}");
        for field in database.iter().filter(|field| *field != "column_family") {
            assert!(names(DATABASE).contains(&field.as_str()), "{field}");
        }
    }
}
