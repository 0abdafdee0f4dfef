//! The report's picture: for each scenario everybody's figure as a bar, the best rival being 1.

use crate::measure::Measured;
use crate::peer::Peer;
use std::fmt::Write as _;

const LEFT: f64 = 230.0;
const SCALE: f64 = 200.0;
const BAR: f64 = 11.0;
const GAP: f64 = 12.0;
/// Bars longer than this, in multiples of the best rival, are cut.
const LONGEST: f64 = 2.6;

/// An SVG document.
pub(crate) fn svg(scenarios: &[Measured]) -> String {
    let mut bars = String::new();
    let mut y = 40.0;
    for measured in scenarios {
        let medians = measured.medians();
        let rivals = medians
            .iter()
            .filter(|(peer, _)| measured.scenario.is_against(*peer));
        let best = rivals
            .map(|(_, medians)| medians.per_cpu_second)
            .fold(0.0, f64::max);
        if best <= 0.0 {
            continue;
        }
        let _ = writeln!(
            bars,
            r#"<text x="{:.0}" y="{:.0}" text-anchor="end">{}</text>"#,
            LEFT - 8.0,
            y + BAR,
            measured.scenario.title
        );
        let top = y;
        for (peer, medians) in &medians {
            let ratio = medians.per_cpu_second / best;
            let width = ratio.min(LONGEST) * SCALE;
            let _ = writeln!(
                bars,
                r#"<rect x="{LEFT}" y="{y:.0}" width="{width:.1}" height="{:.0}" fill="{}"/><text x="{:.1}" y="{:.0}" class="n">{} {ratio:.2}</text>"#,
                BAR - 1.0,
                color(*peer),
                LEFT + width + 4.0,
                y + BAR - 2.0,
                peer.title(),
            );
            y += BAR;
        }
        if let Some(target) = measured.scenario.target {
            let x = LEFT + target * SCALE;
            let _ = writeln!(
                bars,
                r#"<line x1="{x:.1}" x2="{x:.1}" y1="{:.0}" y2="{y:.0}" class="t"/>"#,
                top - 2.0
            );
        }
        y += GAP;
    }
    let width = LEFT + LONGEST * SCALE + 110.0;
    let one = LEFT + SCALE;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" font-family="sans-serif" font-size="12">
<style>.n{{font-size:9px;fill:#444}}.t{{stroke:#000;stroke-dasharray:3 2}}</style>
<rect width="100%" height="100%" fill="white"/>
<text x="{LEFT}" y="18">Requests per CPU-second; the best rival is 1, the dashed line is the target</text>
<line x1="{one}" x2="{one}" y1="30" y2="{y:.0}" stroke="silver"/>
{bars}</svg>
"#,
        height = y + 10.0,
    )
}

fn color(peer: Peer) -> &'static str {
    match peer {
        Peer::Headgate => "#1b6ca8",
        Peer::Haproxy => "#9aa5b1",
        Peer::Nginx => "#b8a98f",
        Peer::Envoy => "#c3b1cf",
        Peer::Pingora => "#e0b48a",
        Peer::Relay => "#8fc1a9",
    }
}
