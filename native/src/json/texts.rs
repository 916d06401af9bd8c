//! Values that JSON carries as text. Each function takes the forms of `schemas/texts.py` and is `Unsure` about all else.

use super::cursor::{Sure, Unsure};

const DAY_MICROS: i64 = 86_400_000_000;
/// 0001-01-01T00:00:00 and 9999-12-31T23:59:59.999999, in microseconds since 1970.
const MICROS_LOW: i64 = -62_135_596_800_000_000;
const MICROS_HIGH: i64 = 253_402_300_799_999_999;

#[inline(always)]
fn two(text: &[u8], at: usize) -> Sure<i64> {
    let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        return Err(Unsure);
    }
    Ok(i64::from(tens * 10 + ones))
}

/// `YYYY-MM-DD` at the beginning of `text`: days since 1970-01-01.
#[inline(always)]
fn days(text: &[u8]) -> Sure<i64> {
    if text.len() < 10 || text[4] != b'-' || text[7] != b'-' {
        return Err(Unsure);
    }
    let year = two(text, 0)? * 100 + two(text, 2)?;
    let (month, day) = (two(text, 5)?, two(text, 8)?);
    if year < 1 || !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
        return Err(Unsure);
    }
    // Days from the civil calendar, years beginning in March (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted / 400;
    let year_of_era = shifted - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Ok(era * 146_097 + day_of_era - 719_468)
}

#[inline(always)]
fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `HH:MM[:SS[.ffffff]]` at the beginning of `text`: microseconds, and how many bytes it took.
#[inline(always)]
fn clock(text: &[u8]) -> Sure<(i64, usize)> {
    if text.len() < 5 || text[2] != b':' {
        return Err(Unsure);
    }
    let (hour, minute) = (two(text, 0)?, two(text, 3)?);
    if hour > 23 || minute > 59 {
        return Err(Unsure);
    }
    let minutes = hour * 60 + minute;
    if text.len() < 8 || text[5] != b':' {
        return Ok((minutes * 60_000_000, 5));
    }
    let second = two(text, 6)?;
    if second > 59 {
        return Err(Unsure);
    }
    let whole = (minutes * 60 + second) * 1_000_000;
    if text.len() < 9 || text[8] != b'.' {
        return Ok((whole, 8));
    }
    let (micros, taken) = fraction(&text[9..])?;
    Ok((whole + micros, 9 + taken))
}

/// Digits after the point: microseconds, and how many digits; beyond six only zeros are exact.
#[inline(always)]
fn fraction(text: &[u8]) -> Sure<(i64, usize)> {
    let (mut micros, mut taken) = (0, 0);
    while taken < text.len() && text[taken].is_ascii_digit() {
        let digit = i64::from(text[taken] - b'0');
        if taken < 6 {
            micros = micros * 10 + digit;
        } else if digit != 0 {
            return Err(Unsure);
        }
        taken += 1;
    }
    if taken == 0 {
        return Err(Unsure);
    }
    for _ in taken..6 {
        micros *= 10;
    }
    Ok((micros, taken))
}

/// `Z`, `±HH`, `±HHMM` or `±HH:MM`, all of `text`: microseconds east of UTC.
#[inline(always)]
fn zone(text: &[u8]) -> Sure<i64> {
    if matches!(text, b"Z" | b"z") {
        return Ok(0);
    }
    let minute_at = match (text.len(), text.get(3)) {
        (3, _) => None,
        (5, _) => Some(3),
        (6, Some(b':')) => Some(4),
        _ => return Err(Unsure),
    };
    let hour = two(text, 1)?;
    let minute = minute_at.map_or(Ok(0), |at| two(text, at))?;
    if hour > 23 || minute > 59 {
        return Err(Unsure);
    }
    let east = (hour * 60 + minute) * 60_000_000;
    match text[0] {
        b'+' => Ok(east),
        b'-' => Ok(-east),
        _ => Err(Unsure),
    }
}

/// A date, all of `text`.
pub fn date(text: &[u8]) -> Sure<i32> {
    if text.len() != 10 {
        return Err(Unsure);
    }
    Ok(days(text)? as i32)
}

/// A time of day, all of `text`.
pub fn time(text: &[u8]) -> Sure<i64> {
    let (micros, taken) = clock(text)?;
    if taken != text.len() {
        return Err(Unsure);
    }
    Ok(micros)
}

/// A date and a time, all of `text`, with a zone when `zoned` and without else.
#[inline(always)]
pub fn timestamp(text: &[u8], zoned: bool) -> Sure<i64> {
    let day = days(text)?;
    if text.len() < 11 || !matches!(text[10], b'T' | b't' | b' ') {
        return Err(Unsure);
    }
    let (micros, taken) = clock(&text[11..])?;
    let rest = &text[11 + taken..];
    let local = day * DAY_MICROS + micros;
    if !zoned {
        return if rest.is_empty() { Ok(local) } else { Err(Unsure) };
    }
    let instant = local - zone(rest)?;
    if (MICROS_LOW..=MICROS_HIGH).contains(&instant) {
        Ok(instant)
    } else {
        Err(Unsure)
    }
}

fn hex(byte: u8) -> Sure<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8).ok_or(Unsure)
}

/// The 8-4-4-4-12 form, in either case.
pub fn uuid(text: &[u8]) -> Sure<[u8; 16]> {
    if text.len() != 36 {
        return Err(Unsure);
    }
    let mut bytes = [0; 16];
    let mut at = 0;
    for (number, byte) in bytes.iter_mut().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            if text[at] != b'-' {
                return Err(Unsure);
            }
            at += 1;
        }
        *byte = hex(text[at])? << 4 | hex(text[at + 1])?;
        at += 2;
    }
    Ok(bytes)
}

fn sextet(byte: u8) -> Sure<u32> {
    Ok(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return Err(Unsure),
    }))
}

/// Base64 of RFC 4648 §4 with padding, in the one form an encoder writes, appended to `out`.
pub fn base64(text: &[u8], out: &mut Vec<u8>) -> Sure<()> {
    if text.len() % 4 != 0 {
        return Err(Unsure);
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return Err(Unsure);
    }
    let (whole, last) = text.split_at(if padding == 0 { text.len() } else { text.len() - 4 });
    for four in whole.chunks_exact(4) {
        let bits = sextet(four[0])? << 18 | sextet(four[1])? << 12 | sextet(four[2])? << 6 | sextet(four[3])?;
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    if padding == 0 {
        return Ok(());
    }
    let bits = sextet(last[0])? << 18 | sextet(last[1])? << 12 | if padding == 1 { sextet(last[2])? << 6 } else { 0 };
    let loose = if padding == 1 { bits & 0xff } else { bits & 0xffff };
    if loose != 0 {
        return Err(Unsure);
    }
    out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    Ok(())
}
