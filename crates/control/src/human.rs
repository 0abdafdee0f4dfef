//! Numbers, sizes, times and tables as people like to read them.

/// Colours of a terminal, by what they are to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
    Watch,
    Faint,
    Strong,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Good => Some("32"),
            Tone::Bad => Some("31"),
            Tone::Watch => Some("33"),
            Tone::Faint => Some("2"),
            Tone::Strong => Some("1"),
        }
    }

    /// The text in this tone.
    pub(crate) fn paint(self, text: &str, colour: bool) -> String {
        match self.code().filter(|_| colour) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
    right: bool,
}

impl Cell {
    pub(crate) fn left(text: impl Into<String>) -> Self {
        Cell {
            text: printable(&text.into()),
            tone: Tone::Plain,
            right: false,
        }
    }

    pub(crate) fn right(text: impl Into<String>) -> Self {
        Cell {
            right: true,
            ..Cell::left(text)
        }
    }

    pub(crate) fn tone(self, tone: Tone) -> Self {
        Cell { tone, ..self }
    }

    /// A count in its column; `tone` where it is not zero.
    pub(crate) fn count(value: u64, tone: Tone) -> Self {
        let tone = if value == 0 { Tone::Plain } else { tone };
        Cell::right(count(value)).tone(tone)
    }
}

/// Rows with their columns in line, two spaces apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Vec<Vec<Cell>>);

impl Table {
    pub(crate) fn head<const N: usize>(names: [Cell; N]) -> Self {
        Table(vec![
            names
                .into_iter()
                .map(|cell| cell.tone(Tone::Strong))
                .collect(),
        ])
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.0.push(cells.into());
    }

    pub(crate) fn render(&self, colour: bool) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.0 {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        let mut out = String::new();
        for row in &self.0 {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                let padding = " ".repeat(widths[column] - cell.text.chars().count());
                let painted = cell.tone.paint(&cell.text, colour);
                match (cell.right, column + 1 == row.len()) {
                    (true, _) => line.extend([padding, painted]),
                    (false, true) => line.push_str(&painted),
                    (false, false) => line.extend([painted, padding]),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// `1234567` as `1 234 567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// `1536` as `1.5 KiB`.
pub(crate) fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// `93784.0` as `1d 2h`: the two largest units, below a minute one with a digit.
pub(crate) fn seconds(value: f64) -> String {
    let whole = value.max(0.0) as u64;
    match whole {
        0 if value < 0.9995 => format!("{:.0}ms", value.max(0.0) * 1000.0),
        0..10 => format!("{value:.1}s"),
        10..60 => format!("{whole}s"),
        60..3600 => format!("{}m {}s", whole / 60, whole % 60),
        3600..86400 => format!("{}h {}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d {}h", whole / 86400, whole / 3600 % 24),
    }
}

/// A number a second: `0`, `0.4`, `12`, `12 345`.
pub(crate) fn rate(value: f64) -> String {
    match value {
        v if v < 0.05 => "0".to_owned(),
        v if v < 9.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// Without what would change a terminal's state.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well_at_the_edges_of_their_units() {
        let counts = [0, 999, 1000, 12_345_678].map(count);
        assert_eq!(counts, ["0", "999", "1 000", "12 345 678"]);
        let sizes = [0.0, 1023.0, 1024.0, 1_048_570.0, 5e15].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "4.4 PiB"]);
        let times = [
            0.0, 0.0124, 0.9999, 9.96, 59.9, 60.0, 3599.0, 7260.0, 93784.0,
        ]
        .map(seconds);
        assert_eq!(
            times,
            [
                "0ms", "12ms", "1.0s", "10.0s", "59s", "1m 0s", "59m 59s", "2h 1m", "1d 2h"
            ]
        );
        assert_eq!(
            [0.0, 0.4, 9.94, 9.96, 12345.4].map(rate),
            ["0", "0.4", "9.9", "10", "12 345"]
        );
    }

    #[test]
    fn columns_stand_in_line_with_and_without_colour() {
        let mut table = Table::head([Cell::left("NAME"), Cell::right("N"), Cell::left("WHY")]);
        table.row([
            Cell::left("ä").tone(Tone::Good),
            Cell::count(1234, Tone::Bad),
            Cell::left(""),
        ]);
        assert_eq!(table.render(false), "NAME      N  WHY\nä     1 234\n");
        let painted = table.render(true);
        assert!(
            painted.contains("\x1b[32mä\x1b[0m     \x1b[31m1 234"),
            "{painted:?}"
        );
    }

    #[test]
    fn nothing_that_a_member_says_reaches_the_terminal_as_a_command() {
        assert_eq!(Cell::left("a\x1b[2Jb\n").text, "a [2Jb ");
    }
}
