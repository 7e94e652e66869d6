//! The time of a record (transcript contract 2, *Time*).

/// Milliseconds since 1970 of an RFC 3339 time with `T` and `Z` or a numeric offset; 0 for anything else, an impossible date
/// included. Fractions of a second are cut to milliseconds.
pub(crate) fn millis(text: &str) -> i64 {
    parse(text.as_bytes()).unwrap_or(0)
}

fn parse(text: &[u8]) -> Option<i64> {
    let (year, month, day) = (number(text, 0, 4)?, number(text, 5, 2)?, number(text, 8, 2)?);
    let (hour, minute, second) = (number(text, 11, 2)?, number(text, 14, 2)?, number(text, 17, 2)?);
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| text.get(at) != Some(&mark)) {
        return None;
    }
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (millis, zone) = fraction(text.get(19..)?)?;
    let days = days_before(year, month) + day - 1;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset(zone)?;
    Some(seconds * 1_000 + millis)
}

/// The milliseconds of a fraction, and what follows it.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', digits)) = rest.split_first() else { return Some((0, rest)) };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let (fraction, zone) = digits.split_at(count);
    let millis =
        [100, 10, 1].iter().zip(fraction).map(|(weight, digit)| weight * i64::from(digit - b'0')).sum();
    Some((millis, zone))
}

/// Seconds east of Greenwich.
fn offset(zone: &[u8]) -> Option<i64> {
    if zone == b"Z" {
        return Some(0);
    }
    let sign = match zone.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = (number(zone, 1, 2)?, number(zone, 4, 2)?);
    let whole = zone.len() == 6 && zone.get(3) == Some(&b':') && hours <= 23 && minutes <= 59;
    whole.then_some(sign * (hours * 3_600 + minutes * 60))
}

fn number(text: &[u8], from: usize, digits: usize) -> Option<i64> {
    text.get(from..from + digits)?
        .iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

const fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the first of the month.
fn days_before(year: i64, month: i64) -> i64 {
    // Days from 0000-01-01 to the first of January of `year`, in the Gregorian calendar carried back.
    let past = year - 1;
    let to_year = 365 * year + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    let to_month: i64 = (1..month).map(|month| days_in(year, month)).sum();
    to_year + to_month - 719_162 - 365
}

#[cfg(test)]
mod tests {
    use super::millis;

    #[test]
    fn times_that_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.001Z", 1),
            ("2026-11-02T09:00:01.037Z", 1_793_610_001_037),
            ("2026-11-02T09:00:01.0379999Z", 1_793_610_001_037),
            ("2026-11-02T09:00:01.5Z", 1_793_610_001_500),
            ("2026-11-02T10:30:01.037+01:30", 1_793_610_001_037),
            ("2026-11-02T07:00:01-02:00", 1_793_610_001_000),
            ("1969-12-31T23:59:59.900Z", -100),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("0001-01-01T00:00:00Z", -62_135_596_800_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }

    #[test]
    fn anything_else_is_0() {
        for text in [
            "",
            "now",
            "2026-11-02",
            "2026-11-02 09:00:01Z",
            "2026-11-02T09:00:01",
            "2026-11-02T09:00:01.Z",
            "2026-11-02T09:00:01z",
            "2026-11-02t09:00:01Z",
            "2026-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00+01:00x",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+01:60",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z ",
            "٢026-01-01T00:00:00Z",
        ] {
            assert_eq!(millis(text), 0, "{text}");
        }
    }
}
