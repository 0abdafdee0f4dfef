//! The report's picture: nanoseconds a packet of each row with a peer, ours and theirs as bars.

use crate::row::{Goal, Part, Row, Series};
use std::fmt::Write as _;

const LEFT: f64 = 330.0;
const WIDTH: f64 = 520.0;
const BAR: f64 = 11.0;
const GAP: f64 = 8.0;

/// An SVG document.
pub(crate) fn svg(rows: &[Row]) -> String {
    let mut bars = String::new();
    let mut y = 20.0;
    for (part, title) in [
        (
            Part::Cost,
            "Nanoseconds a packet in test runs (the line: the goal)",
        ),
        (
            Part::Forward,
            "Nanoseconds a packet of the device's core, forwarding",
        ),
        (
            Part::Routes,
            "Nanoseconds a packet with a full routing table, and with a handful of routes",
        ),
    ] {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| row.part == part && !row.ours.rounds.is_empty())
            .collect();
        let all = rows
            .iter()
            .flat_map(|row| row.peers.iter().chain([&row.ours]));
        let most = all.map(Series::median).fold(1.0, f64::max);
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(
            bars,
            r#"<text x="{LEFT}" y="{y:.0}" font-weight="bold">{title}</text>"#
        );
        y += GAP;
        for row in rows {
            y = group(&mut bars, row, y, WIDTH / most);
        }
        y += 24.0;
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{y:.0}" font-family="sans-serif" font-size="12">
<style>.n{{font-size:9px;fill:#444}}.t{{stroke:#000;stroke-dasharray:3 2}}</style>
<rect width="100%" height="100%" fill="white"/>
{bars}</svg>
"#,
        width = LEFT + WIDTH + 220.0,
    )
}

/// One row's bars; where the next begin.
fn group(bars: &mut String, row: &Row, mut y: f64, scale: f64) -> f64 {
    let top = y;
    let _ = writeln!(
        bars,
        r#"<text x="{:.0}" y="{:.0}" text-anchor="end">{}</text>"#,
        LEFT - 8.0,
        y + BAR,
        escaped(&row.title)
    );
    for (number, series) in [&row.ours].into_iter().chain(&row.peers).enumerate() {
        let width = series.median() * scale;
        let color = if number == 0 { "#1b6ca8" } else { "#9aa5b1" };
        let _ = writeln!(
            bars,
            r#"<rect x="{LEFT}" y="{y:.0}" width="{width:.1}" height="{:.0}" fill="{color}"/><text x="{:.1}" y="{:.0}" class="n">{} {:.0}</text>"#,
            BAR - 1.0,
            LEFT + width + 4.0,
            y + BAR - 2.0,
            escaped(&series.name),
            series.median(),
        );
        y += BAR;
    }
    if let Some(Goal::Most(most)) = row.goal {
        let x = LEFT + most * scale;
        let _ = writeln!(
            bars,
            r#"<line x1="{x:.1}" x2="{x:.1}" y1="{:.0}" y2="{y:.0}" class="t"/>"#,
            top - 2.0
        );
    }
    y + GAP
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
