//! The form of a test file: statements, one a line, and what is indented under each. What they mean is `parse`'s.

use super::TestFileError;

/// A statement: its line, its text, and the lines that are indented under it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Its line in the file, from 1.
    pub(super) line: u32,
    /// Its text, without the blanks around it.
    pub(super) text: String,
    /// What is indented under it, as it stands.
    pub(super) block: Vec<Line>,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: u32,
    /// Its text with its indentation, without what is blank behind it.
    pub(super) text: String,
}

impl Node {
    /// The statement's first word, and the rest.
    pub(super) fn keyword(&self) -> (&str, &str) {
        split_word(&self.text)
    }

    /// The statements of its block.
    pub(super) fn nodes(&self) -> Result<Vec<Node>, TestFileError> {
        nodes(&self.block)
    }

    /// The block's lines without the indentation that they have in common.
    pub(super) fn dedented(&self) -> Vec<Line> {
        let filled = self.block.iter().filter(|line| !line.text.is_empty());
        let common = filled.map(|line| indent(&line.text)).min().unwrap_or(0);
        let cut = |line: &Line| Line {
            number: line.number,
            text: line.text.get(common..).unwrap_or_default().to_owned(),
        };
        self.block.iter().map(cut).collect()
    }
}

/// The lines of a file.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let numbered = (1..).zip(text.lines());
    numbered
        .map(|(number, text)| Line {
            number,
            text: text.trim_end().to_owned(),
        })
        .collect()
}

/// Statements with their blocks. Lines that are blank or begin with `#` where a statement could stand are passed over.
pub(super) fn nodes(lines: &[Line]) -> Result<Vec<Node>, TestFileError> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut depth = None;
    for line in lines {
        let here = indent(&line.text);
        let content = line.text.trim_start();
        let at = *depth.get_or_insert(here);
        if content.is_empty() {
            if nodes.is_empty() {
                depth = None;
            }
            if let Some(node) = nodes.last_mut() {
                node.block.push(line.clone());
            }
        } else if here > at {
            match nodes.last_mut() {
                Some(node) => node.block.push(line.clone()),
                // Under a comment.
                None => continue,
            }
        } else if here < at {
            return Err(TestFileError::new(
                line.number,
                "is indented less than what it stands under",
            ));
        } else if !content.starts_with('#') {
            nodes.push(Node {
                line: line.number,
                text: content.to_owned(),
                block: Vec::new(),
            });
        }
    }
    for node in &mut nodes {
        while node.block.last().is_some_and(|line| line.text.is_empty()) {
            node.block.pop();
        }
    }
    Ok(nodes)
}

/// The first word, and what follows the blanks behind it.
pub(super) fn split_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// The words of a statement. A word in double quotes may have blanks and escapes.
pub(super) fn words(text: &str, line: u32) -> Result<Vec<Vec<u8>>, TestFileError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if rest.starts_with('"') {
            let (word, behind) = quoted(rest, line)?;
            words.push(word);
            rest = behind.trim_start();
        } else {
            let (word, behind) = split_word(rest);
            words.push(word.as_bytes().to_vec());
            rest = behind;
        }
    }
    Ok(words)
}

/// The same, of which each is to be UTF-8.
pub(super) fn names(text: &str, line: u32) -> Result<Vec<String>, TestFileError> {
    let words = words(text, line)?.into_iter();
    let names = words.map(|word| String::from_utf8_lossy(&word).into_owned());
    Ok(names.collect())
}

/// A value that is either the rest of the line as it stands, or in double quotes with escapes.
pub(super) fn value(text: &str, line: u32) -> Result<Vec<u8>, TestFileError> {
    if !text.starts_with('"') {
        return Ok(text.as_bytes().to_vec());
    }
    match quoted(text, line)? {
        (value, behind) if behind.trim().is_empty() => Ok(value),
        _ => Err(TestFileError::new(
            line,
            "has something behind the closing quote",
        )),
    }
}

/// What stands in double quotes at the start, and what is behind it.
fn quoted(text: &str, line: u32) -> Result<(Vec<u8>, &str), TestFileError> {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => return Ok((out, &text[at..])),
            b'\\' => {
                let escaped = bytes.get(at).copied().unwrap_or(b'\\');
                at += 1;
                match escaped {
                    b'n' => out.push(b'\n'),
                    b'r' => out.push(b'\r'),
                    b't' => out.push(b'\t'),
                    b'0' => out.push(0),
                    b'x' => {
                        let digits = text.get(at..at + 2).unwrap_or_default();
                        let byte = u8::from_str_radix(digits, 16).map_err(|_| {
                            TestFileError::new(line, "wants two hexadecimal digits behind `\\x`")
                        })?;
                        out.push(byte);
                        at += 2;
                    }
                    other => out.push(other),
                }
            }
            other => out.push(other),
        }
    }
    Err(TestFileError::new(line, "has a quote that is not closed"))
}

fn indent(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_what_is_indented_under_them() {
        let text = "# a comment\n\npool web\n    10.0.0.1:80\n\n    10.0.0.2:80\n\ntest a\n  request GET /\n    A: b\n";
        let all = nodes(&lines(text)).unwrap();
        let shape: Vec<(u32, &str, usize)> = all
            .iter()
            .map(|node| (node.line, &*node.text, node.block.len()))
            .collect();
        assert_eq!(shape, [(3, "pool web", 3), (8, "test a", 2)]);
        let inner = all[1].nodes().unwrap();
        assert_eq!(inner[0].keyword(), ("request", "GET /"));
        assert_eq!(inner[0].dedented()[0].text, "A: b");
    }

    #[test]
    fn less_indentation_than_before_is_an_error() {
        let all = nodes(&lines("test a\n    b\n  c\n")).unwrap();
        assert_eq!(all[0].nodes().unwrap_err().line, 3);
    }

    #[test]
    fn words_may_be_quoted() {
        let all = words(r#"a "b c" "\x41\r\n\"" d"#, 1).unwrap();
        assert_eq!(all, [&b"a"[..], b"b c", b"A\r\n\"", b"d"]);
        assert!(words("\"a", 1).is_err());
        assert_eq!(value("a \"b", 1).unwrap(), b"a \"b");
        assert_eq!(value("\"a\\n\"", 1).unwrap(), b"a\n");
        assert!(value("\"a\" b", 1).is_err());
    }
}
