//! From a flag's [`Value`] to the type of the field it is bound to, and db_bench's own validators.
//!
//! Owns the conversions and the texts `Invalid value for --NAME: V, must be ...`. Knows no field.

use crate::gflags::Value;
use crate::workload::values::SizeDistribution;

/// A field type that a flag can fill.
pub(super) trait FromValue: Sized {
    /// The field's value, or what the given one must be.
    fn from_value(value: &Value) -> Result<Self, &'static str>;
    /// The value as `--help` and `--explain_flags` show it.
    fn show(&self) -> String;
}

macro_rules! integers {
    ($($type:ty: $must:literal),*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Result<Self, &'static str> {
                match *value {
                    Value::Int(value) => value.try_into().map_err(|_| $must),
                    Value::UInt(value) => value.try_into().map_err(|_| $must),
                    _ => Err($must),
                }
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

integers!(u32: "must be >= 0 and fit 32 bits", u64: "must be >= 0", usize: "must be >= 0", i64: "must fit 64 bits");

impl FromValue for bool {
    fn from_value(value: &Value) -> Result<Self, &'static str> {
        match value {
            Value::Bool(value) => Ok(*value),
            _ => Err("must be a boolean"),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl FromValue for f64 {
    fn from_value(value: &Value) -> Result<Self, &'static str> {
        match value {
            Value::Double(value) => Ok(*value),
            _ => Err("must be a number"),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Result<Self, &'static str> {
        Ok(value.to_string())
    }
    fn show(&self) -> String {
        self.clone()
    }
}

impl FromValue for SizeDistribution {
    fn from_value(value: &Value) -> Result<Self, &'static str> {
        match value.to_string().to_ascii_lowercase().as_str() {
            "fixed" => Ok(Self::Fixed),
            "uniform" => Ok(Self::Uniform),
            "normal" => Ok(Self::Normal),
            _ => Err("must be fixed, uniform or normal"),
        }
    }
    fn show(&self) -> String {
        self.name().to_owned()
    }
}

/// Percentages that sum to 100.
impl FromValue for Vec<u32> {
    fn from_value(value: &Value) -> Result<Self, &'static str> {
        const MUST: &str = "must be percentages that sum to 100, such as 50,24,26";
        let text = value.to_string();
        let shares: Option<Vec<u32>> =
            text.split(',').filter(|part| !part.is_empty()).map(|part| part.trim().parse().ok()).collect();
        match shares {
            Some(shares) if shares.is_empty() || shares.iter().sum::<u32>() == 100 => Ok(shares),
            _ => Err(MUST),
        }
    }
    fn show(&self) -> String {
        self.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

/// The validators that db_bench has for single flags, and the ranges that this tool needs.
pub(super) fn validate(name: &str, value: &Value) -> Result<(), String> {
    let number = match *value {
        Value::Int(value) => value as f64,
        Value::UInt(value) => value as f64,
        Value::Double(value) => value,
        _ => return Ok(()),
    };
    let (ok, must) = match name {
        "cache_numshardbits" => (number < 20.0, "must be < 20"),
        "table_cache_numshardbits" if number >= 20.0 => (false, "must be < 20"),
        "table_cache_numshardbits" => (number > 0.0, "must be > 0"),
        "readwritepercent" | "deletepercent" => (number > 0.0 && number < 100.0, "must be > 0 and < 100"),
        "prefix_size" => ((0.0..2e9).contains(&number), "must be >= 0 and < 2000000000"),
        "subcompactions" => (number <= f64::from(u32::MAX), "must fit 32 bits"),
        "compression_ratio" => (number > 0.0 && number <= 1.0, "must be > 0 and <= 1"),
        "start_delay_percent" => ((1.0..=99.0).contains(&number), "must be 1 to 99"),
        "threads" | "batch_size" | "key_size" | "num_column_families" | "ops_between_duration_checks" => {
            (number >= 1.0, "must be >= 1")
        }
        "read_random_exp_range" => (number >= 0.0, "must be >= 0"),
        _ => (true, ""),
    };
    if ok { Ok(()) } else { Err(format!("Invalid value for --{name}: {value}, {must}")) }
}
