//! Which working flag fills which field: one row each.
//!
//! Owns the list and the few flags whose value is more than a copy. [`find`] serves the parser's result, `--help`
//! and `--explain_flags` alike, so the three cannot disagree. The unit tests hold that every flag with status
//! [`Works`](crate::gflags::Status::Works) has a row here or is handled before one is needed.

use std::time::Duration;

use sluicedb::{Compression, DelayedWriteRate, RateLimiter, ReadMode, TableWrites};

use super::Settings;
use super::convert::FromValue;
use crate::gflags::Value;

/// How one flag meets [`Settings`].
#[derive(Debug)]
pub struct Binding {
    /// The flag.
    pub flag: &'static str,
    /// The field, as a path from [`Settings`].
    pub bound: &'static str,
    /// Puts a value in; the error is a whole line.
    pub set: fn(&mut Settings, &Value) -> Result<(), String>,
    /// The value as it stands.
    pub show: fn(&Settings) -> String,
}

macro_rules! bind {
    ($flag:literal, $root:ident $(. $field:ident)+) => {
        Binding {
            flag: $flag,
            bound: stringify!($root $(. $field)+),
            set: |settings, value| match FromValue::from_value(value) {
                Ok(converted) => {
                    settings.$root $(. $field)+ = converted;
                    Ok(())
                }
                Err(must) => Err(format!("Invalid value for --{}: {value}, {must}", $flag)),
            },
            show: |settings| settings.$root $(. $field)+.show(),
        }
    };
    (bench $($flag:ident),* $(,)?) => {
        [$(bind!(@named $flag)),*]
    };
    (@named $flag:ident) => {
        Binding {
            flag: stringify!($flag),
            bound: concat!("bench.", stringify!($flag)),
            set: |settings, value| match FromValue::from_value(value) {
                Ok(converted) => {
                    settings.bench.$flag = converted;
                    Ok(())
                }
                Err(must) => Err(format!("Invalid value for --{}: {value}, {must}", stringify!($flag))),
            },
            show: |settings| settings.bench.$flag.show(),
        }
    };
}

/// Flags of the tool's own, each bound to the field of its name.
static BENCH: &[Binding] = &bind![bench
    all_cfs, batch_size, benchmark_read_rate_limit, benchmark_write_rate_limit, benchmarks,
    column_family_distribution, compression_ratio, confidence_interval_only, db, deletes, disable_wal, duration,
    finish_after_writes, histogram, json, key_size, legacy_stall_line, manual_wal_flush, max_scan_distance,
    num, num_column_families, num_multi_db, ops_between_duration_checks, progress_reports,
    read_random_exp_range, readonly, reads, readwritepercent, report_append, report_file, report_interval_seconds,
    reverse_iterator, seed, seek_nexts, slow_usecs, stall_abort_seconds, stall_timeout_ms, statistics,
    stats_interval, stats_interval_seconds, stats_per_interval, sync, threads, use_existing_db, value_size,
    value_size_distribution_type, value_size_max, value_size_min, wal_dir, writes,
];

/// Flags that fill an option of the engine, and those whose value is more than a copy.
static OPTIONS: &[Binding] = &[
    bind!("write_buffer_size", db.column_family.write_buffer_size),
    bind!("max_write_buffer_number", db.column_family.max_write_buffer_number),
    bind!("min_write_buffer_number_to_merge", db.column_family.min_write_buffer_number_to_merge),
    bind!("level0_file_num_compaction_trigger", db.column_family.level0_file_num_compaction_trigger),
    bind!("level0_slowdown_writes_trigger", db.column_family.level0_slowdown_writes_trigger),
    bind!("level0_stop_writes_trigger", db.column_family.level0_stop_writes_trigger),
    bind!("soft_pending_compaction_bytes_limit", db.column_family.soft_pending_compaction_bytes_limit),
    bind!("hard_pending_compaction_bytes_limit", db.column_family.hard_pending_compaction_bytes_limit),
    bind!("disable_auto_compactions", db.column_family.disable_auto_compactions),
    bind!("num_levels", db.column_family.num_levels),
    bind!("max_bytes_for_level_base", db.column_family.max_bytes_for_level_base),
    bind!("max_bytes_for_level_multiplier", db.column_family.max_bytes_for_level_multiplier),
    bind!("level_compaction_dynamic_level_bytes", db.column_family.level_compaction_dynamic_level_bytes),
    bind!("target_file_size_base", db.column_family.target_file_size_base),
    bind!("target_file_size_multiplier", db.column_family.target_file_size_multiplier),
    bind!("block_size", db.column_family.block_size),
    bind!("block_restart_interval", db.column_family.block_restart_interval),
    bind!("max_write_buffer_size_to_maintain", db.column_family.max_write_buffer_size_to_maintain),
    bind!("db_write_buffer_size", db.db_write_buffer_size),
    bind!("allow_wbm_stalls", db.allow_stall),
    bind!("cost_write_buffer_to_cache", db.cost_write_buffer_to_cache),
    bind!("smooth_writes", db.smooth_writes),
    bind!("flush_progress_credit", db.flush_progress_credit),
    bind!("desync_write_buffers", db.desync_write_buffers),
    bind!("strict_flush_priority", db.strict_flush_priority),
    bind!("initiate_wbm_flushes", db.initiate_flushes),
    bind!("start_delay_percent", db.delay_start_percent),
    bind!("subcompactions", db.max_subcompactions),
    bind!("verify_checksum", read.verify_checksums),
    bind!("commit_queue_bytes", db.commit_queue_bytes),
    bind!("commit_group_bytes", db.commit_group_bytes),
    bind!("group_queue_limit", db.group_queue_limit),
    bind!("queue_group_bytes", db.queue_group_bytes),
    bind!("job_ring_slots", db.job_ring_slots),
    bind!("wal_bytes_per_sync", db.wal_sync_bytes),
    Binding {
        flag: "wal_sync_interval_ms",
        bound: "db.wal_sync_interval",
        set: |settings, value| {
            let Value::UInt(millis) = *value else { return Ok(()) };
            settings.db.wal_sync_interval = Duration::from_millis(millis);
            Ok(())
        },
        show: |settings| settings.db.wal_sync_interval.as_millis().to_string(),
    },
    Binding {
        flag: "wal_segment_bytes",
        bound: "db.wal_segment_bytes",
        set: |settings, value| {
            unless(value, 0, |bytes| settings.db.wal_segment_bytes = bytes, "wal_segment_bytes")
        },
        show: |settings| settings.db.wal_segment_bytes.to_string(),
    },
    Binding {
        flag: "rate_limiter_bytes_per_sec",
        bound: "db.rate_limiter",
        set: |settings, value| {
            let set = |bytes| settings.db.rate_limiter = Some(RateLimiter::new(bytes));
            unless(value, 0, set, "rate_limiter_bytes_per_sec")
        },
        show: |settings| {
            let limiter = settings.db.rate_limiter.as_ref();
            limiter.map_or(0, |limiter| limiter.bytes_per_second()).to_string()
        },
    },
    Binding {
        flag: "max_total_wal_size",
        bound: "db.max_total_wal_size",
        set: |settings, value| {
            unless(value, 0, |bytes| settings.db.max_total_wal_size = bytes, "max_total_wal_size")
        },
        show: |settings| settings.db.max_total_wal_size.to_string(),
    },
    Binding {
        flag: "max_num_parallel_flushes",
        bound: "db.max_parallel_flushes",
        set: |settings, value| {
            let set = |count| settings.db.max_parallel_flushes = u32::try_from(count).unwrap_or(u32::MAX);
            unless(value, 0, set, "max_num_parallel_flushes")
        },
        show: |settings| settings.db.max_parallel_flushes.to_string(),
    },
    Binding {
        flag: "min_level_to_compress",
        bound: "db.column_family.min_level_to_compress",
        set: |settings, value| {
            if let Value::Int(level @ 0..) = *value {
                settings.db.column_family.min_level_to_compress = u32::try_from(level).unwrap_or(u32::MAX);
            }
            Ok(())
        },
        show: |settings| settings.db.column_family.min_level_to_compress.to_string(),
    },
    Binding {
        flag: "open_files",
        bound: "db.max_open_files",
        set: |settings, value| {
            let Value::Int(files) = *value else { return Ok(()) };
            settings.db.max_open_files = u32::try_from(files).unwrap_or(u32::MAX);
            Ok(())
        },
        show: |settings| settings.db.max_open_files.to_string(),
    },
    Binding {
        flag: "cache_size",
        bound: "db.block_cache_size",
        set: |settings, value| {
            let Value::Int(bytes) = *value else { return Ok(()) };
            settings.db.block_cache_size = u64::try_from(bytes).unwrap_or(0);
            Ok(())
        },
        show: |settings| settings.db.block_cache_size.to_string(),
    },
    Binding {
        flag: "bloom_bits",
        bound: "db.column_family.bloom_bits_per_key",
        set: |settings, value| {
            if let Value::Double(bits) = *value
                && (bits >= 0.0 || bits.is_nan())
            {
                settings.db.column_family.bloom_bits_per_key = bits;
            }
            Ok(())
        },
        show: |settings| settings.db.column_family.bloom_bits_per_key.to_string(),
    },
    Binding {
        flag: "delayed_write_rate",
        bound: "db.delayed_write_rate",
        set: |settings, value| match *value {
            Value::UInt(rate) => {
                settings.db.delayed_write_rate = DelayedWriteRate::BytesPerSecond(rate);
                Ok(())
            }
            _ => {
                settings.db.delayed_write_rate = DelayedWriteRate::Auto;
                Ok(())
            }
        },
        show: |settings| match settings.db.delayed_write_rate {
            DelayedWriteRate::Auto => "auto".to_owned(),
            rate => rate.bytes_per_second().to_string(),
        },
    },
    Binding {
        flag: "compression_type",
        bound: "db.column_family.compression",
        set: set_compression,
        show: |settings| compression_name(settings.db.column_family.compression).to_owned(),
    },
    Binding {
        flag: "use_direct_io_for_flush_and_compaction",
        bound: "db.table_writes",
        set: |settings, value| {
            settings.db.table_writes =
                if *value == Value::Bool(true) { TableWrites::Direct } else { TableWrites::Auto };
            Ok(())
        },
        show: |settings| (settings.db.table_writes == TableWrites::Direct).to_string(),
    },
    Binding {
        flag: "mmap_read",
        bound: "db.read_mode",
        set: |settings, value| {
            settings.db.read_mode =
                if *value == Value::Bool(true) { ReadMode::Mmap } else { ReadMode::Pread };
            Ok(())
        },
        show: |settings| (settings.db.read_mode == ReadMode::Mmap).to_string(),
    },
    Binding {
        flag: "memtablerep",
        bound: "the engine's only memtable",
        set: |settings, value| match value.to_string().as_str() {
            rep @ ("skip_list" | "hash_spdb" | "vector") => {
                settings.bench.memtablerep = rep.to_owned();
                Ok(())
            }
            rep => Err(format!(
                "--memtablerep: '{rep}' is known to db_bench, not supported by this engine (skip_list)"
            )),
        },
        show: |settings| settings.bench.memtablerep.clone(),
    },
    Binding {
        flag: "json_out",
        bound: "bench.json",
        set: |settings, value| {
            settings.bench.json = value.to_string();
            Ok(())
        },
        show: |settings| settings.bench.json.clone(),
    },
    Binding {
        flag: "progress",
        bound: "bench.progress",
        set: |settings, value| match value.to_string().as_str() {
            mode @ ("auto" | "tty" | "plain" | "none") => {
                settings.bench.progress = mode.to_owned();
                Ok(())
            }
            mode => Err(format!("Invalid value for --progress: {mode}, must be auto, tty, plain or none")),
        },
        show: |settings| settings.bench.progress.clone(),
    },
    // The three below are resolved together, once all flags are in.
    later("max_background_flushes", "db.max_background_flushes", |s| s.db.max_background_flushes.to_string()),
    later("max_background_compactions", "db.max_background_compactions", |s| {
        s.db.max_background_compactions.to_string()
    }),
    later("max_background_jobs", "db.max_background_flushes + db.max_background_compactions", |s| {
        (s.db.max_background_flushes + s.db.max_background_compactions).to_string()
    }),
];

const fn later(flag: &'static str, bound: &'static str, show: fn(&Settings) -> String) -> Binding {
    Binding { flag, bound, set: |_, _| Ok(()), show }
}

/// The row of that flag. `None` for flags that are acted on before settings exist (`--explain_flags`).
pub fn find(flag: &str) -> Option<&'static Binding> {
    BENCH.iter().chain(OPTIONS).find(|binding| binding.flag == flag)
}

/// The flag that fills the engine option `option` (a field name, as the engine's errors have it).
pub fn flag_of_option(option: &'static str) -> &'static str {
    let ends_with = |bound: &str| bound.rsplit('.').next() == Some(option);
    OPTIONS.iter().find(|binding| ends_with(binding.bound)).map_or(option, |binding| binding.flag)
}

/// Sets an unsigned or signed value, unless it is the one that stands for "the default".
fn unless(value: &Value, default: u64, set: impl FnOnce(u64), flag: &str) -> Result<(), String> {
    match u64::from_value(value) {
        Ok(value) if value == default => Ok(()),
        Ok(value) => {
            set(value);
            Ok(())
        }
        Err(must) => Err(format!("Invalid value for --{flag}: {value}, {must}")),
    }
}

fn set_compression(settings: &mut Settings, value: &Value) -> Result<(), String> {
    let given = value.to_string();
    settings.db.column_family.compression = match given.to_ascii_lowercase().as_str() {
        "none" => Compression::None,
        "lz4" => Compression::Lz4,
        "snappy" | "zlib" | "bzip2" | "lz4hc" | "xpress" | "zstd" => {
            return Err(format!(
                "--compression_type: '{given}' is known to db_bench, not supported by this engine \
                 (none, lz4; zstd in a build with that feature)"
            ));
        }
        _ => return Err(format!("--compression_type: Cannot parse compression type '{given}'")),
    };
    Ok(())
}

/// A codec's name as RocksDB's header block prints it.
pub fn compression_name(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "NoCompression",
        Compression::Lz4 => "LZ4",
        _ => "ZSTD",
    }
}

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Binding> {
    BENCH.iter().chain(OPTIONS)
}
