//! Typed flag values: what text each type takes, and what is said about text that it does not take.
//!
//! Owns the number and boolean grammar of gflags: decimal or `0x` integers without suffixes, `strtod` for doubles,
//! ten words for booleans. Must not know any flag by name.

/// The type of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `1 t true y yes`, `0 f false n no`.
    Bool,
    /// A signed 32-bit integer.
    Int32,
    /// A signed 64-bit integer.
    Int64,
    /// An unsigned 32-bit integer.
    UInt32,
    /// An unsigned 64-bit integer.
    UInt64,
    /// Whatever `strtod` reads.
    Double,
    /// Anything.
    Str,
}

/// A value of one of the types.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// A signed integer of either width.
    Int(i64),
    /// An unsigned integer of either width.
    UInt(u64),
    /// A double.
    Double(f64),
    /// A string.
    Str(String),
}

impl Kind {
    /// The type's name in gflags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Double => "double",
            Self::Str => "string",
        }
    }

    /// "an int64", "a bool".
    pub fn with_article(self) -> String {
        let article = if matches!(self, Self::Int32 | Self::Int64) { "an" } else { "a" };
        format!("{article} {}", self.name())
    }

    /// Reads `text`.
    ///
    /// # Errors
    ///
    /// What to say after "is not an int64": empty, or a remark in brackets with a leading space.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Bool => match text.to_ascii_lowercase().as_str() {
                "1" | "t" | "true" | "y" | "yes" => Ok(Value::Bool(true)),
                "0" | "f" | "false" | "n" | "no" => Ok(Value::Bool(false)),
                _ => Err(" (1 t true y yes, or 0 f false n no)".to_owned()),
            },
            Self::Int32 => signed(text, i128::from(i32::MIN), i128::from(i32::MAX)).map(Value::Int),
            Self::Int64 => signed(text, i128::from(i64::MIN), i128::from(i64::MAX)).map(Value::Int),
            Self::UInt32 => unsigned(text, i128::from(u32::MAX)).map(Value::UInt),
            Self::UInt64 => unsigned(text, i128::from(u64::MAX)).map(Value::UInt),
            Self::Double => strtod(text).map(Value::Double).ok_or_else(String::new),
            Self::Str => Ok(Value::Str(text.to_owned())),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
            Self::Str(value) => value.fmt(f),
        }
    }
}

fn signed(text: &str, least: i128, most: i128) -> Result<i64, String> {
    let value = integer(text)?;
    if value < least || value > most {
        return Err(format!(" ({least} to {most})"));
    }
    Ok(value as i64)
}

fn unsigned(text: &str, most: i128) -> Result<u64, String> {
    if text.starts_with('-') {
        return Err(" (no minus sign)".to_owned());
    }
    let value = integer(text)?;
    if value > most {
        return Err(format!(" (0 to {most})"));
    }
    Ok(value as u64)
}

fn integer(text: &str) -> Result<i128, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return Err(String::new());
    }
    match i128::from_str_radix(digits, radix) {
        Ok(value) => Ok(if negative { -value } else { value }),
        Err(_) if !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix)) => {
            Err(" (too large)".to_owned())
        }
        Err(_) => Err(remark(text)),
    }
}

/// What the writer of `64K` or `1e6` probably meant.
fn remark(text: &str) -> String {
    let suffixed = text.char_indices().last().and_then(|(at, suffix)| {
        let shift = match suffix.to_ascii_uppercase() {
            'K' => 10,
            'M' => 20,
            'G' => 30,
            'T' => 40,
            _ => return None,
        };
        let number: i64 = text[..at].parse().ok()?;
        number.checked_mul(1 << shift)
    });
    if let Some(value) = suffixed {
        return format!(" (no unit suffixes, as in db_bench; write {value})");
    }
    match text.parse::<f64>() {
        Ok(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
            format!(" (no exponents or fractions, as in db_bench; write {value})")
        }
        _ => String::new(),
    }
}

/// A full `strtod`: decimal, `inf`, `nan`, and hexadecimal with a binary exponent.
fn strtod(text: &str) -> Option<f64> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => (-1.0, body),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if body.starts_with(['+', '-']) {
        return None;
    }
    let Some(hex) = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) else {
        return body.parse::<f64>().ok().map(|value| sign * value);
    };
    let (mantissa, exponent) = match hex.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (hex, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let exponent = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    Some(sign * value * 2f64.powi(exponent))
}
