//! A value into a column of any type it fits exactly; everything else is `Unsure` (rules: `schemas/avro/fit.py`).

use crate::json::columns::Column;
use crate::json::cursor::{Sure, Unsure};

const DAYS_LOW: i64 = -719_162;
const DAYS_HIGH: i64 = 2_932_896;
const DECIMAL_DIGITS_MAX: u32 = 38;
/// Texts that are looked up can be longer than what names them, so their bytes are not bounded by those of the slice.
pub const BYTES_MAX: usize = i32::MAX as usize;
const SHORT_TEXT_BYTES: usize = 64;

#[inline(always)]
pub fn integer(to: &mut Column, value: i64) -> Sure<()> {
    match to {
        Column::Long(column) => column.push(value),
        Column::Int(column) => column.push(i32::try_from(value).map_err(|_| Unsure)?),
        Column::Double(column) => {
            let number = value as f64;
            if number as i128 != i128::from(value) {
                return Err(Unsure);
            }
            column.push(number);
        }
        Column::Float(column) => {
            let number = value as f32;
            if number as i128 != i128::from(value) {
                return Err(Unsure);
            }
            column.push(number);
        }
        Column::Decimal(..) => return decimal(to, i128::from(value), 0),
        _ => return Err(Unsure),
    }
    Ok(())
}

/// `unscaled` with `scale` digits after the point.
pub fn decimal(to: &mut Column, unscaled: i128, scale: u32) -> Sure<()> {
    let Column::Decimal(column, precision, wanted) = to else { return Err(Unsure) };
    let wanted = u32::try_from(*wanted).map_err(|_| Unsure)?;
    let power = |digits: u32| if digits > DECIMAL_DIGITS_MAX { Err(Unsure) } else { Ok(10i128.pow(digits)) };
    let value = if scale > wanted {
        let parts = power(scale - wanted)?;
        if unscaled % parts != 0 {
            return Err(Unsure);
        }
        unscaled / parts
    } else {
        unscaled.checked_mul(power(wanted - scale)?).ok_or(Unsure)?
    };
    if value.unsigned_abs() >= power(u32::from(*precision))?.unsigned_abs() {
        return Err(Unsure);
    }
    column.push(value);
    Ok(())
}

/// A signed number of any length, the highest byte first.
pub fn big_endian(bytes: &[u8]) -> Sure<i128> {
    let mut wide = [if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 }; 16];
    let start = wide.len().checked_sub(bytes.len()).ok_or(Unsure)?;
    wide[start..].copy_from_slice(bytes);
    Ok(i128::from_be_bytes(wide))
}

#[inline(always)]
pub fn single(to: &mut Column, value: f32) -> Sure<()> {
    match to {
        Column::Float(column) => column.push(value),
        Column::Double(column) => column.push(f64::from(value)),
        _ => return Err(Unsure),
    }
    Ok(())
}

#[inline(always)]
pub fn double(to: &mut Column, value: f64) -> Sure<()> {
    match to {
        Column::Double(column) => column.push(value),
        Column::Float(column) => {
            let number = value as f32;
            if value.is_finite() && f64::from(number) != value {
                return Err(Unsure);
            }
            column.push(number);
        }
        _ => return Err(Unsure),
    }
    Ok(())
}

#[inline(always)]
pub fn boolean(to: &mut Column, value: u64) -> Sure<()> {
    let Column::Boolean(column) = to else { return Err(Unsure) };
    if value > 1 {
        return Err(Unsure);
    }
    column.push(value as u8);
    Ok(())
}

pub fn date(to: &mut Column, days: i64) -> Sure<()> {
    let Column::Date(column) = to else { return Err(Unsure) };
    if !(DAYS_LOW..=DAYS_HIGH).contains(&days) {
        return Err(Unsure);
    }
    column.push(days as i32);
    Ok(())
}

/// Microseconds, of a day or since 1970.
#[inline(always)]
pub fn micros(to: &mut Column, micros: i64) -> Sure<()> {
    match to {
        Column::Time(column) | Column::Timestamp(column, _) => column.push(micros),
        _ => return Err(Unsure),
    }
    Ok(())
}

#[inline(always)]
pub fn is_utf8(bytes: &[u8]) -> bool {
    if bytes.len() < SHORT_TEXT_BYTES {
        bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
    } else {
        simdutf8::basic::from_utf8(bytes).is_ok()
    }
}

#[inline(always)]
pub fn text(to: &mut Column, bytes: &[u8]) -> Sure<()> {
    let Column::Text(column) = to else { return Err(Unsure) };
    if !is_utf8(bytes) {
        return Err(Unsure);
    }
    column.bytes.extend_from_slice(bytes);
    column.close();
    Ok(())
}

/// A text that stands for another value, such as an enum's symbol.
#[inline(always)]
pub fn symbol(to: &mut Column, text: &str) -> Sure<()> {
    let Column::Text(column) = to else { return Err(Unsure) };
    if column.bytes.len() + text.len() > BYTES_MAX {
        return Err(Unsure);
    }
    column.bytes.extend_from_slice(text.as_bytes());
    column.close();
    Ok(())
}

/// The 8-4-4-4-12 form.
pub fn uuid(to: &mut Column, bytes: &[u8]) -> Sure<()> {
    let Column::Uuid(column) = to else { return Err(Unsure) };
    column.push(crate::json::texts::uuid(bytes)?);
    Ok(())
}

#[inline(always)]
pub fn bytes(to: &mut Column, bytes: &[u8]) -> Sure<()> {
    match to {
        Column::Binary(column) => {
            column.bytes.extend_from_slice(bytes);
            column.close();
        }
        Column::Uuid(column) => column.push(bytes.try_into().map_err(|_| Unsure)?),
        Column::FixedBinary(all, column, size) => {
            if bytes.len() != *size {
                return Err(Unsure);
            }
            all.extend_from_slice(bytes);
            column.push(());
        }
        _ => return Err(Unsure),
    }
    Ok(())
}
