//! `headgate fastpath check`, for whoever doubts the connection table.

use super::args::Where;
use super::text::count;
use super::{Error, print, sight};
use fastpath::check::Report;

/// Findings that are shown of each table.
const SHOWN: usize = 20;

/// Looks through the tables and tells what is wrong.
pub(super) fn check(place: &Where) -> Result<(), Error> {
    let checked = sight(place)?.check().map_err(Error::Table)?;
    let mut text = String::new();
    for (layout, family, report) in &checked {
        text += &render(layout, *family, report);
    }
    print(&text)?;
    match checked.iter().all(|(_, _, report)| is_sound(report)) {
        true => Ok(()),
        false => Err(Error::Unsound),
    }
}

fn is_sound(report: &Report) -> bool {
    report.wrong.is_empty() && report.lost == 0
}

fn render(layout: &str, family: u8, report: &Report) -> String {
    let number = |n: usize| count(n as u64);
    let mut text = format!(
        "{layout}, IPv{family}: {} flows, {} half-open, {} slots free: ",
        number(report.flows),
        number(report.half_open),
        number(report.free),
    );
    if is_sound(report) {
        return text + "sound\n";
    }
    let (wrong, lost) = (number(report.wrong.len()), number(report.lost));
    text += &format!("{wrong} mistakes, {lost} slots lost\n");
    for wrong in report.wrong.iter().take(SHOWN) {
        text += &format!("  {wrong}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastpath::check::Wrong;

    #[test]
    fn a_sound_table_is_called_sound_and_another_says_what_is_wrong() {
        let mut report = Report {
            flows: 3,
            free: 1000,
            ..Report::default()
        };
        assert!(render("v1", 4, &report).ends_with(": sound\n"));
        let why = "holds a flow";
        report.wrong.push(Wrong::Free { slot: 7, why });
        assert!(!is_sound(&report));
        let text = render("v1", 6, &report);
        assert!(text.contains("1 mistakes"), "{text}");
        assert!(
            text.ends_with("  slot 7 is free and holds a flow\n"),
            "{text}"
        );
    }
}
