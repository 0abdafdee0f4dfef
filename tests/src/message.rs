//! HTTP/1 messages as a test looks at them. Bytes become characters one by one (Latin-1), so that nothing is lost.

/// A request or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The first line.
    pub line: String,
    /// Names as they came, and values.
    pub fields: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
    /// Fields behind the last chunk.
    pub trailers: Vec<(String, String)>,
}

impl Message {
    /// Understands a head, up to and with its empty line.
    pub fn parse(head: &[u8]) -> Self {
        let text: String = head.iter().map(|byte| char::from(*byte)).collect();
        // An empty line before a request is overlooked (RFC 9112, 2.2).
        let mut lines = text.trim_matches(['\r', '\n']).split("\r\n");
        Self {
            line: lines.next().unwrap_or_default().to_owned(),
            fields: lines.map(field).collect(),
            ..Self::default()
        }
    }

    /// A response's status.
    pub fn status(&self) -> u16 {
        let status = self.line.split(' ').nth(1).unwrap_or_default();
        status
            .parse()
            .unwrap_or_else(|_| panic!("no status in {:?}", self.line))
    }

    /// A request's method.
    pub fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// A request's target.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// The first field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// All fields of that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the body comes in chunks.
    pub fn is_chunked(&self) -> bool {
        self.field("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    }

    /// The body's length, where it is said.
    pub fn length(&self) -> Option<usize> {
        self.field("content-length")
            .map(|length| length.trim().parse().unwrap())
    }

    /// Whether the sender closes the connection behind it.
    pub fn closes(&self) -> bool {
        self.field("connection")
            .is_some_and(|options| options.to_ascii_lowercase().contains("close"))
    }
}

/// A line of name and value.
pub(crate) fn field(line: &str) -> (String, String) {
    let (name, value) = line
        .split_once(':')
        .unwrap_or_else(|| panic!("no field: {line:?}"));
    (name.to_owned(), value.trim().to_owned())
}
