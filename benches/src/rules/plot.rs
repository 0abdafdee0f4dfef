//! The report's picture: what the rule costs everybody, and how much faster than tclsh scripts run, as bars.

use crate::peer::Peer;
use crate::proxies::Case;
use crate::report::Report;
use std::fmt::Write as _;

const LEFT: f64 = 290.0;
const WIDTH: f64 = 420.0;
const BAR: f64 = 11.0;
const GAP: f64 = 12.0;
/// Scripts that are faster than this many times tclsh are cut.
const LONGEST: f64 = 8.0;

/// An SVG document.
pub(crate) fn svg(report: &Report) -> String {
    let mut drawing = Drawing {
        marks: String::new(),
        y: 20.0,
    };
    if !report.proxies.is_empty() {
        drawing.costs(report);
    }
    if !report.scripts.is_empty() {
        drawing.scripts(report);
    }
    let Drawing { marks, y } = drawing;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{:.0}" height="{:.0}" font-family="sans-serif" font-size="12">
<style>.n{{font-size:9px;fill:#444}}.t{{stroke:#000;stroke-dasharray:3 2}}</style>
<rect width="100%" height="100%" fill="white"/>
{marks}</svg>
"#,
        LEFT + WIDTH + 160.0,
        y + 10.0,
    )
}

struct Drawing {
    marks: String,
    y: f64,
}

impl Drawing {
    fn costs(&mut self, report: &Report) {
        self.title("What the HMAC cookie rule costs a request: microseconds of processor time");
        let costs = report
            .proxies
            .iter()
            .flat_map(|measured| Case::ALL.into_iter().filter_map(|case| measured.cost(case)));
        let most = costs.fold(1.0, f64::max);
        for case in Case::ALL {
            self.label(case.title());
            for measured in &report.proxies {
                if let Some(cost) = measured.cost(case) {
                    let text = format!("{} {cost:.2}", measured.peer.title());
                    self.bar(cost.max(0.0) / most * WIDTH, color(measured.peer), &text);
                }
            }
            self.y += GAP;
        }
        self.y += GAP;
    }

    fn scripts(&mut self, report: &Report) {
        self.title("Small scripts: times as fast as tclsh; dashed lines at 1 and 2");
        let top = self.y;
        for timed in &report.scripts {
            self.label(&timed.name);
            let ratio = timed.ratio().unwrap_or(0.0);
            let width = ratio.min(LONGEST) / LONGEST * WIDTH;
            self.bar(width, color(Peer::Headgate), &format!("{ratio:.2}"));
            self.y += 3.0;
        }
        for times in [1.0, 2.0] {
            let x = LEFT + times / LONGEST * WIDTH;
            let _ = writeln!(
                self.marks,
                r#"<line x1="{x:.1}" x2="{x:.1}" y1="{top:.0}" y2="{:.0}" class="t"/>"#,
                self.y
            );
        }
        self.y += GAP;
    }

    fn title(&mut self, text: &str) {
        let _ = writeln!(
            self.marks,
            r#"<text x="{LEFT}" y="{:.0}">{text}</text>"#,
            self.y
        );
        self.y += GAP;
    }

    /// The name of the bar, or the bars, that follow.
    fn label(&mut self, text: &str) {
        let _ = writeln!(
            self.marks,
            r#"<text x="{:.0}" y="{:.0}" text-anchor="end">{text}</text>"#,
            LEFT - 8.0,
            self.y + BAR - 1.0
        );
    }

    fn bar(&mut self, width: f64, color: &str, text: &str) {
        let _ = writeln!(
            self.marks,
            r#"<rect x="{LEFT}" y="{:.0}" width="{width:.1}" height="{:.0}" fill="{color}"/><text x="{:.1}" y="{:.0}" class="n">{text}</text>"#,
            self.y,
            BAR - 1.0,
            LEFT + width + 4.0,
            self.y + BAR - 2.0,
        );
        self.y += BAR;
    }
}

fn color(peer: Peer) -> &'static str {
    match peer {
        Peer::Headgate => "#1b6ca8",
        Peer::Haproxy => "#9aa5b1",
        Peer::NginxLua => "#b8a98f",
        Peer::NginxJs => "#d6cbb6",
        Peer::Envoy => "#c3b1cf",
        Peer::HaproxyNative => "#c9d1d9",
    }
}
