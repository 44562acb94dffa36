//! Numbers with their nouns.

/// `1 line`, `2 lines`.
pub(crate) fn count(n: u64, one: &str) -> String {
    count_of(n, one, &format!("{one}s"))
}

/// `1 entry`, `2 entries`. Thousands are set apart, so that a person can read them.
pub(crate) fn count_of(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", thousands(n)) }
}

/// `1,018`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.5 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = KIB * KIB;
    const GIB: u64 = MIB * KIB;
    let tenths = |unit: u64| format!("{}.{}", n / unit, n % unit * 10 / unit);
    match n {
        0..KIB => format!("{n} bytes"),
        KIB..MIB => format!("{} KiB", tenths(KIB)),
        MIB..GIB => format!("{} MiB", tenths(MIB)),
        _ => format!("{} GiB", tenths(GIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_018), "1,018");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(count(1, "line"), "1 line");
        assert_eq!(count_of(2, "entry", "entries"), "2 entries");
    }
}
