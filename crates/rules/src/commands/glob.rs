//! Glob patterns.

/// Whether the pattern matches the whole text.
pub(crate) fn glob(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last `*` was, and up to where it reaches.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        if let Some(after) = one(&pattern[p..], text[t], nocase) {
            p += after;
            t += 1;
            continue;
        }
        match star {
            Some((after, reach)) => {
                p = after;
                t = reach + 1;
                star = Some((after, t));
            }
            None => return false,
        }
    }
}

/// How long the part of the pattern is that matches a byte, if it does.
fn one(pattern: &[u8], byte: u8, nocase: bool) -> Option<usize> {
    let fold = |byte: u8| {
        if nocase {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    let byte = fold(byte);
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (fold(escaped) == byte).then_some(2),
        [b'[', ..] => {
            let mut at = 1;
            let mut found = false;
            while at < pattern.len() && pattern[at] != b']' {
                let from = fold(pattern[at]);
                let mut to = from;
                if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() {
                    to = fold(pattern[at + 2]);
                    at += 2;
                }
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 1;
            }
            found.then_some((at + 1).min(pattern.len()))
        }
        [plain, ..] => (fold(plain) == byte).then_some(1),
    }
}
