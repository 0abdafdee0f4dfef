//! Sets of bytes, and the named classes of bracket expressions.
//! A character is a byte: the classes know ASCII only, the high half belongs to none of them.

/// A set of byte values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(super) const EMPTY: Self = Self([0; 4]);
    pub(super) const FULL: Self = Self([u64::MAX; 4]);

    pub(super) fn one(byte: u8) -> Self {
        let mut set = Self::EMPTY;
        set.insert(byte);
        set
    }

    pub(super) fn word() -> Self {
        let mut set = Self::where_true(|byte| byte.is_ascii_alphanumeric());
        set.insert(b'_');
        set
    }

    pub(super) fn where_true(test: impl Fn(u8) -> bool) -> Self {
        let mut set = Self::EMPTY;
        for byte in 0..=255 {
            if test(byte) {
                set.insert(byte);
            }
        }
        set
    }

    /// The class `[:name:]`; without case, `upper` and `lower` are `alpha`.
    pub(super) fn class(name: &[u8], nocase: bool) -> Option<Self> {
        Some(Self::where_true(match name {
            b"upper" | b"lower" | b"alpha" if nocase => |b: u8| b.is_ascii_alphabetic(),
            b"alnum" => |b: u8| b.is_ascii_alphanumeric(),
            b"alpha" => |b: u8| b.is_ascii_alphabetic(),
            b"ascii" => |b: u8| b.is_ascii(),
            b"blank" => |b: u8| b == b' ' || b == b'\t',
            b"cntrl" => |b: u8| b.is_ascii_control(),
            b"digit" => |b: u8| b.is_ascii_digit(),
            b"graph" => |b: u8| b.is_ascii_graphic(),
            b"lower" => |b: u8| b.is_ascii_lowercase(),
            b"print" => |b: u8| b.is_ascii_graphic() || b == b' ',
            // Unicode calls the other nine of C's marks symbols, and Tcl follows Unicode
            b"punct" => |b: u8| b.is_ascii_punctuation() && !b"$+<=>^`|~".contains(&b),
            b"space" => |b: u8| matches!(b, b'\t'..=b'\r' | b' '),
            b"upper" => |b: u8| b.is_ascii_uppercase(),
            b"xdigit" => |b: u8| b.is_ascii_hexdigit(),
            _ => return None,
        }))
    }

    pub(super) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub(super) fn remove(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] &= !(1 << (byte & 63));
    }

    #[inline]
    pub(super) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    pub(super) fn complement(self) -> Self {
        Self(self.0.map(|word| !word))
    }

    pub(super) fn is_disjoint(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & b == 0)
    }

    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255).filter(|&byte| self.contains(byte))
    }

    /// The set's only byte.
    pub(super) fn single(&self) -> Option<u8> {
        if self.len() != 1 {
            return None;
        }
        let word = self.0.iter().position(|&word| word != 0)?;
        Some((word as u32 * 64 + self.0[word].trailing_zeros()) as u8)
    }

    /// Adds the other case of every letter in the set.
    pub(super) fn fold_case(self) -> Self {
        let mut folded = self;
        for byte in self.iter() {
            folded.insert(byte.to_ascii_lowercase());
            folded.insert(byte.to_ascii_uppercase());
        }
        folded
    }
}

/// The byte that a collating element is: itself, or its POSIX name.
pub(super) fn collating_element(name: &[u8]) -> Option<u8> {
    if let [byte] = name {
        return Some(*byte);
    }
    let at = |list: &[&[u8]], first: u8| {
        let position = list.iter().position(|&known| known == name)?;
        Some(first + u8::try_from(position).ok()?)
    };
    at(CONTROLS, 0)
        .or_else(|| at(CONTROL_NAMES, 7))
        .or_else(|| at(MARKS, b' '))
        .or_else(|| at(DIGITS_AND_ON, b'0'))
        .or_else(|| at(BRACKETS, b'['))
        .or_else(|| at(BRACES, b'{'))
        .or_else(|| {
            OTHER_NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, byte)| *byte)
        })
}

const CONTROLS: &[&[u8]] = &[
    b"NUL", b"SOH", b"STX", b"ETX", b"EOT", b"ENQ", b"ACK", b"BEL", b"BS", b"HT", b"LF", b"VT",
    b"FF", b"CR", b"SO", b"SI", b"DLE", b"DC1", b"DC2", b"DC3", b"DC4", b"NAK", b"SYN", b"ETB",
    b"CAN", b"EM", b"SUB", b"ESC", b"IS4", b"IS3", b"IS2", b"IS1",
];
const CONTROL_NAMES: &[&[u8]] = &[
    b"alert",
    b"backspace",
    b"tab",
    b"newline",
    b"vertical-tab",
    b"form-feed",
    b"carriage-return",
];
const MARKS: &[&[u8]] = &[
    b"space",
    b"exclamation-mark",
    b"quotation-mark",
    b"number-sign",
    b"dollar-sign",
    b"percent-sign",
    b"ampersand",
    b"apostrophe",
    b"left-parenthesis",
    b"right-parenthesis",
    b"asterisk",
    b"plus-sign",
    b"comma",
    b"hyphen",
    b"period",
    b"slash",
];
const DIGITS_AND_ON: &[&[u8]] = &[
    b"zero",
    b"one",
    b"two",
    b"three",
    b"four",
    b"five",
    b"six",
    b"seven",
    b"eight",
    b"nine",
    b"colon",
    b"semicolon",
    b"less-than-sign",
    b"equals-sign",
    b"greater-than-sign",
    b"question-mark",
    b"commercial-at",
];
const BRACKETS: &[&[u8]] = &[
    b"left-square-bracket",
    b"backslash",
    b"right-square-bracket",
    b"circumflex",
    b"underscore",
    b"grave-accent",
];
const BRACES: &[&[u8]] = &[
    b"left-brace",
    b"vertical-line",
    b"right-brace",
    b"tilde",
    b"DEL",
];
const OTHER_NAMES: &[(&[u8], u8)] = &[
    (b"FS", 0x1c),
    (b"GS", 0x1d),
    (b"RS", 0x1e),
    (b"US", 0x1f),
    (b"hyphen-minus", b'-'),
    (b"full-stop", b'.'),
    (b"solidus", b'/'),
    (b"reverse-solidus", b'\\'),
    (b"circumflex-accent", b'^'),
    (b"low-line", b'_'),
    (b"left-curly-bracket", b'{'),
    (b"right-curly-bracket", b'}'),
];
