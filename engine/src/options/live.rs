//! Options by name, as text, for changes while a database is open.
//!
//! One table a struct: every option's name, and for the live ones how a text is read into its field. A change names
//! several; all are applied to a copy, the copy is checked as a whole, and only then does it take effect: never half
//! of it. Whoever holds the options in force, and what follows from a change, is not known here.

use std::str::FromStr;
use std::time::Duration;

use super::{ColumnFamilyOptions, Compression, DbOptions, DelayedWriteRate};
use crate::error::{Error, Result};

/// Reads a text into a field of `T`, or says what is wrong with it.
type Set<T> = fn(&mut T, &str) -> Result<(), String>;

/// How one option stands to changes while the database is open.
struct Named<T> {
    name: &'static str,
    /// Reads a text into the option's field; none for an option that is fixed while the database is open.
    set: Option<Set<T>>,
}

/// The options of `$options`: live ones with how they are read, then the fixed ones.
macro_rules! table {
    ($options:ty; $($live:ident: $read:expr,)*; $($fixed:ident,)*) => {
        &[
            $(Named {
                name: stringify!($live),
                set: Some(|options: &mut $options, text: &str| {
                    options.$live = $read(text)?;
                    Ok(())
                }),
            },)*
            $(Named { name: stringify!($fixed), set: None },)*
        ]
    };
}

const COLUMN_FAMILY: &[Named<ColumnFamilyOptions>] = table! {
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
    compaction_style,
    compaction_filter,
    memtable_rep,
    min_write_buffer_number_to_merge,
    max_write_buffer_size_to_maintain,
    num_levels,
    level_compaction_dynamic_level_bytes,
};

const DATABASE: &[Named<DbOptions>] = table! {
    DbOptions;
    allow_stall: truth,
    cost_write_buffer_to_cache: truth,
    delay_start_percent: number,
    delayed_write_rate: rate,
    stall_timeout: limit,
    write_timeout: micros,
    max_total_wal_size: bytes,
    ;
    create_if_missing,
    error_if_exists,
    create_missing_column_families,
    db_write_buffer_size,
    initiate_flushes,
    flush_progress_credit,
    desync_write_buffers,
    strict_flush_priority,
    smooth_writes,
    max_parallel_flushes,
    enforce_write_buffer_manager_during_recovery,
    max_background_flushes,
    max_background_compactions,
    max_subcompactions,
    table_writes,
    commit_queue_bytes,
    commit_group_bytes,
    commit_group_count,
    parallel_insert_bytes,
    async_waiting_bytes,
    max_batch_bytes,
    wal_segment_bytes,
    wal_buffer_bytes,
    wal_sync_interval,
    wal_sync_bytes,
    wal_sync_on_idle,
    manifest_save_interval,
    manifest_min_gap,
    job_ring_slots,
    recovery_mode,
    block_cache_size,
    read_mode,
    max_open_files,
    max_read_threads,
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
        let Some(set) = named.set else {
            let why = "it is fixed while the database is open; close it and open it with the new value";
            return Err(Error::invalid(named.name, why));
        };
        if changes[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(Error::invalid(named.name, "it is given twice in one change"));
        }
        set(options, text).map_err(|why| Error::invalid(named.name, why))?;
    }
    Ok(())
}

/// What is said of a name that is none: the nearest one, if any is near.
fn unknown<T>(table: &[Named<T>], name: &str) -> String {
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

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number in range"))
}

/// A number of bytes; `K`, `M`, `G` and `T` behind it mean binary multiples, as in RocksDB's option texts.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        Some(b't' | b'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let amount = digits.parse::<u64>().ok().and_then(|amount| amount.checked_mul(1 << shift));
    amount.ok_or_else(|| format!("'{text}' is not a number of bytes, such as 65536 or 64K"))
}

fn fraction(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "none" | "kNoCompression" => Ok(Compression::None),
        "lz4" | "kLZ4Compression" => Ok(Compression::Lz4),
        _ => Err(format!("'{text}' is no compression; there are none and lz4")),
    }
}

fn rate(text: &str) -> Result<DelayedWriteRate, String> {
    bytes(text).map(DelayedWriteRate::BytesPerSecond)
}

fn micros(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_micros)
}

/// Microseconds; 0 is no limit.
fn limit(text: &str) -> Result<Option<Duration>, String> {
    micros(text).map(|limit| Some(limit).filter(|limit| !limit.is_zero()))
}

#[cfg(test)]
mod tests {
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
