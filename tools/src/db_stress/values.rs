//! Keys and values: each value can be checked by itself, for its key.
//!
//! A key is its number in 16 digits, so that order is the number's. A value is its base (4 bytes), a check of family, key and base
//! (4 bytes), then bytes that follow from the base up to a length that follows from it too.

/// The key of that number.
pub fn key(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

/// The number of a key.
pub fn number(key: &[u8]) -> Option<u64> {
    std::str::from_utf8(key).ok().filter(|text| text.len() == 16)?.parse().ok()
}

/// Mixes its bits well: each input bit reaches each output bit.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn check(family: u64, number: u64, base: u16) -> u32 {
    mix(mix(family << 48 ^ number) ^ u64::from(base)) as u32
}

/// The value that family, key and base make.
pub fn value(family: u64, number: u64, base: u16, size_mult: u64) -> Vec<u8> {
    let drawn = mix(number << 16 | u64::from(base));
    let times = 1 + drawn % 32;
    let length = size_mult * if (drawn >> 32).is_multiple_of(64) { times * 16 } else { times };
    let mut bytes = u32::from(base).to_le_bytes().to_vec();
    bytes.extend(check(family, number, base).to_le_bytes());
    bytes.extend((0..length).map(|at| base as u8 ^ at as u8));
    bytes
}

/// The base of a value, if it is whole and of that family and key.
pub fn base(family: u64, number: u64, bytes: &[u8], size_mult: u64) -> Option<u16> {
    let base = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let base = u16::try_from(base).ok()?;
    (bytes == value(family, number, base, size_mult)).then_some(base)
}
