//! Numbers from their digits. A literal never goes through a double on its way to an integer or a decimal.

use super::cursor::{Cursor, Sure, Unsure};

/// A longer literal is out of range for every column; the exact road says so.
const LITERAL_BYTES_MAX: usize = 4096;
/// Digits that fit a u64 whatever they are.
const U64_DIGITS: usize = 19;
/// Digits that fit an i128 whatever they are.
const I128_DIGITS: usize = 38;
const EXPONENT_MAX: i32 = 99_999;
/// Integers up to here are doubles (floats) all of them.
const DOUBLE_EXACT: u64 = 1 << 53;
const FLOAT_EXACT: u64 = 1 << 24;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
    1e22,
];

/// A number as written: `± digits × 10^exponent`, where `digits` are those of `start..stop` without the point.
#[derive(Debug, Clone, Copy)]
pub struct Number {
    negative: bool,
    /// Written without point and exponent.
    integer: bool,
    /// The digits, right as long as `count` ≤ 19.
    mantissa: u64,
    /// Digits from the first that is not zero.
    count: usize,
    exponent: i32,
    start: usize,
    stop: usize,
}

/// Reads digits into `number`; returns how many there were.
#[inline(always)]
fn digits(cursor: &mut Cursor, number: &mut Number) -> usize {
    let begin = cursor.pos;
    loop {
        let digit = cursor.peek().wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number.mantissa = number.mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        number.count += usize::from(number.count > 0 || digit > 0);
        cursor.pos += 1;
    }
    cursor.pos - begin
}

/// A number by RFC 8259 §6.
#[inline(always)]
pub fn number(cursor: &mut Cursor) -> Sure<Number> {
    let start = cursor.pos;
    let negative = cursor.peek() == b'-';
    cursor.pos += usize::from(negative);
    let mut found = Number { negative, integer: true, mantissa: 0, count: 0, exponent: 0, start, stop: 0 };
    let leading_zero = cursor.peek() == b'0';
    let whole = digits(cursor, &mut found);
    if whole == 0 || (leading_zero && whole > 1) {
        return Err(Unsure);
    }
    if cursor.peek() == b'.' {
        cursor.pos += 1;
        let fraction = digits(cursor, &mut found);
        if fraction == 0 {
            return Err(Unsure);
        }
        found.integer = false;
        found.exponent = -i32::try_from(fraction).map_err(|_| Unsure)?;
    }
    if cursor.peek() | 0x20 == b'e' {
        exponent(cursor, &mut found)?;
    }
    found.stop = cursor.pos;
    Ok(found)
}

#[inline(never)]
fn exponent(cursor: &mut Cursor, found: &mut Number) -> Sure<()> {
    cursor.pos += 1;
    let sign = cursor.peek();
    cursor.pos += usize::from(sign == b'-' || sign == b'+');
    let mut written = Number { negative: false, integer: true, mantissa: 0, count: 0, exponent: 0, start: 0, stop: 0 };
    if digits(cursor, &mut written) == 0 {
        return Err(Unsure);
    }
    found.integer = false;
    // An exponent beyond every type is held at one that is beyond every type too, but stays small enough to add to.
    let size = if written.count > 5 { EXPONENT_MAX } else { written.mantissa as i32 };
    found.exponent = found.exponent.saturating_add(if sign == b'-' { -size } else { size });
    if written.count > 5 && found.count > 0 {
        found.exponent = if sign == b'-' { i32::MIN / 2 } else { i32::MAX / 2 };
    }
    Ok(())
}

impl Number {
    fn too_long(&self) -> bool {
        self.stop - self.start > LITERAL_BYTES_MAX
    }

    /// The integer this is (`1.0` and `1e3` are, unless `strict`), in `low..=high`.
    #[inline(always)]
    pub fn integer(&self, low: i64, high: i64, strict: bool) -> Sure<i64> {
        if self.count > U64_DIGITS {
            return Err(Unsure);
        }
        let mut size = i128::from(self.mantissa);
        if !self.integer {
            if strict || self.too_long() {
                return Err(Unsure);
            }
            size = scaled(size, self.exponent)?;
        }
        let value = if self.negative { -size } else { size };
        if value < i128::from(low) || value > i128::from(high) {
            return Err(Unsure);
        }
        Ok(value as i64)
    }

    /// The nearest double; of an integer literal, the one that equals it.
    #[inline(always)]
    pub fn double(&self, cursor: &Cursor) -> Sure<f64> {
        let exact = self.count <= U64_DIGITS && self.mantissa <= DOUBLE_EXACT;
        if self.integer {
            // "-0" is the integer 0, which has no sign
            return if exact { Ok(self.signed_integer()) } else { Err(Unsure) };
        }
        if exact && (-22..=22).contains(&self.exponent) {
            // Both are exact doubles, so one operation rounds once (Clinger 1990).
            let mantissa = self.mantissa as f64;
            let size = if self.exponent < 0 {
                mantissa / POWERS[(-self.exponent) as usize]
            } else {
                mantissa * POWERS[self.exponent as usize]
            };
            return Ok(if self.negative { -size } else { size });
        }
        self.double_slowly(cursor)
    }

    fn signed_integer(&self) -> f64 {
        if self.negative && self.mantissa != 0 {
            -(self.mantissa as f64)
        } else {
            self.mantissa as f64
        }
    }

    #[inline(never)]
    fn double_slowly(&self, cursor: &Cursor) -> Sure<f64> {
        if self.too_long() {
            return Err(Unsure);
        }
        let text = std::str::from_utf8(cursor.slice(self.start, self.stop)).map_err(|_| Unsure)?;
        let value: f64 = text.parse().map_err(|_| Unsure)?;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(Unsure)
        }
    }

    /// The float nearest to the double; of an integer literal, the one that equals it.
    #[inline(always)]
    pub fn single(&self, cursor: &Cursor) -> Sure<f32> {
        if self.integer && (self.count > U64_DIGITS || self.mantissa > FLOAT_EXACT) {
            return Err(Unsure);
        }
        let value = self.double(cursor)? as f32;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(Unsure)
        }
    }

    /// The unscaled value in decimal(precision, scale), exactly.
    #[inline(always)]
    pub fn decimal(&self, cursor: &Cursor, precision: u8, scale: i32) -> Sure<i128> {
        if self.too_long() {
            return Err(Unsure);
        }
        let digits = match self.count {
            0..=U64_DIGITS => i128::from(self.mantissa),
            count if count <= I128_DIGITS => self.wide_digits(cursor),
            _ => return Err(Unsure),
        };
        let size = scaled(digits, self.exponent.saturating_add(scale))?;
        if size >= 10i128.pow(u32::from(precision)) {
            return Err(Unsure);
        }
        Ok(if self.negative { -size } else { size })
    }

    /// All digits, of which there are at most 38 after leading zeros.
    fn wide_digits(&self, cursor: &Cursor) -> i128 {
        let literal = cursor.slice(self.start, self.stop);
        let mantissa = literal.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
        mantissa.filter(|byte| byte.is_ascii_digit()).fold(0, |value, byte| value * 10 + i128::from(byte - b'0'))
    }
}

/// `digits × 10^exponent` when that is an integer below 10^38.
fn scaled(digits: i128, exponent: i32) -> Sure<i128> {
    if digits == 0 || exponent == 0 {
        return Ok(digits);
    }
    let power = 10i128.checked_pow(exponent.unsigned_abs()).ok_or(Unsure)?;
    if exponent > 0 {
        return digits.checked_mul(power).ok_or(Unsure);
    }
    if digits % power == 0 {
        Ok(digits / power)
    } else {
        Err(Unsure)
    }
}
