//! Option values as text, both ways: how each type is read, and how it is shown so that reading gives it back.
//!
//! Serves changes of a live database ([`super::live`]) and the OPTIONS file ([`super::file`]). Which option has which
//! type is not known here.

use std::str::FromStr;
use std::time::Duration;

use super::{
    CompactionStyle, Compression, DelayedWriteRate, MemtableRepKind, ReadMode, RecoveryMode, TableWrites,
};

/// Shows a value as the reader of its type takes it.
pub(super) trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_as_displayed {
    ($($type:ty),*) => {$(
        impl Shown for $type {
            fn shown(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

shown_as_displayed!(bool, u32, u64, f64);

/// An enum whose values are words: shown as the first of each row, read as any of them.
macro_rules! words {
    ($read:ident, $type:ident, $what:literal; $($value:ident: $word:literal $(| $other:literal)*),*) => {
        pub(super) fn $read(text: &str) -> Result<$type, String> {
            match text {
                $($word $(| $other)* => Ok($type::$value),)*
                _ => Err(format!("'{text}' is no {}; there are {}", $what, [$($word),*].join(", "))),
            }
        }

        impl Shown for $type {
            fn shown(&self) -> String {
                match self {
                    $(Self::$value => $word.to_owned(),)*
                }
            }
        }
    };
}

words!(compression, Compression, "compression"; None: "none" | "kNoCompression", Lz4: "lz4" | "kLZ4Compression");
words!(
    memtable_rep, MemtableRepKind, "kind of memtable";
    ArenaSkipList: "arena_skip_list", CrossbeamSkipList: "crossbeam_skip_list"
);
words!(
    compaction_style, CompactionStyle, "compaction style";
    Leveled: "leveled" | "kCompactionStyleLevel", SizeTiered: "size_tiered" | "kCompactionStyleUniversal",
    LazyLeveled: "lazy_leveled", Fifo: "fifo" | "kCompactionStyleFIFO"
);
words!(table_writes, TableWrites, "way to write tables"; Auto: "auto", Buffered: "buffered", Direct: "direct");
words!(read_mode, ReadMode, "way to read tables"; Mmap: "mmap", Pread: "pread");
words!(
    recovery_mode, RecoveryMode, "recovery mode";
    TolerateTail: "tolerate_tail", PointInTime: "point_in_time", Absolute: "absolute"
);

pub(super) fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number in range"))
}

/// A number of bytes; `K`, `M`, `G` and `T` behind it mean binary multiples, as in RocksDB's option texts.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let shift = match text.as_bytes().last() {
        Some(b'k' | b'K') => 10,
        Some(b'm' | b'M') => 20,
        Some(b'g' | b'G') => 30,
        Some(b't' | b'T') => 40,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let amount = digits.parse::<u64>().ok().and_then(|amount| amount.checked_mul(1 << shift));
    amount.ok_or_else(|| format!("'{text}' is not a number of bytes, such as 65536 or 64K"))
}

pub(super) fn fraction(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

/// Bytes per second, `default`, or `auto`.
pub(super) fn rate(text: &str) -> Result<DelayedWriteRate, String> {
    match text {
        "default" => Ok(DelayedWriteRate::Default),
        "auto" => Ok(DelayedWriteRate::Auto),
        _ => bytes(text).map(DelayedWriteRate::BytesPerSecond),
    }
}

impl Shown for DelayedWriteRate {
    fn shown(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::Auto => "auto".to_owned(),
            Self::BytesPerSecond(rate) => rate.to_string(),
        }
    }
}

/// Microseconds, with up to three decimals; `max` is as long as there is.
pub(super) fn micros(text: &str) -> Result<Duration, String> {
    if text == "max" {
        return Ok(Duration::MAX);
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let bad = || format!("'{text}' is not a whole number in range");
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let nanos: u64 = format!("{decimals:0<3}").parse().map_err(|_| bad())?;
    Ok(Duration::from_micros(number(whole)?) + Duration::from_nanos(nanos))
}

impl Shown for Duration {
    fn shown(&self) -> String {
        let nanos = self.subsec_nanos() % 1000;
        match u64::try_from(self.as_micros()) {
            Ok(micros) if nanos == 0 => micros.to_string(),
            Ok(micros) => format!("{micros}.{nanos:03}"),
            // Hundreds of thousands of years: no two options of that length differ.
            Err(_) => "max".to_owned(),
        }
    }
}

/// Microseconds; 0 is no limit.
pub(super) fn limit(text: &str) -> Result<Option<Duration>, String> {
    micros(text).map(|limit| Some(limit).filter(|limit| !limit.is_zero()))
}

impl Shown for Option<Duration> {
    fn shown(&self) -> String {
        self.unwrap_or(Duration::ZERO).shown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown is read back as it was; what is none of a type is refused with what there is.
    #[test]
    fn shown_values_are_read_back() {
        for time in [Duration::ZERO, Duration::from_micros(7), Duration::new(3, 4_005), Duration::MAX] {
            assert_eq!(micros(&time.shown()), Ok(time));
        }
        for value in [0.1, 10.0, f64::MIN_POSITIVE, 1e300] {
            assert_eq!(fraction(&value.shown()), Ok(value));
        }
        for rate_in in [
            DelayedWriteRate::Default,
            DelayedWriteRate::Auto,
            DelayedWriteRate::BytesPerSecond(0),
            DelayedWriteRate::BytesPerSecond(9),
        ] {
            assert_eq!(rate(&rate_in.shown()), Ok(rate_in));
        }
        assert_eq!(compression(&Compression::Lz4.shown()), Ok(Compression::Lz4));
        assert_eq!(limit(&None.shown()), Ok(None));
        assert_eq!(bytes("64K"), Ok(65_536));
        assert_eq!(compression("zip"), Err("'zip' is no compression; there are none, lz4".to_owned()));
        for bad in ["", ".", "1.2345", "1.x", "-1", "18446744073709551616"] {
            assert!(micros(bad).is_err(), "{bad}");
        }
        assert!(bytes("99999999999999T").is_err() && bytes("").is_err() && bytes("\u{e9}").is_err());
    }
}
