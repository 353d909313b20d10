//! Metrics as a picture: for each day its runs by how they went, and below them the tokens. An SVG that stands alone.

use chrono::{Days, NaiveDate};
use plotters::{coord::Shift, drawing::DrawingAreaErrorKind, prelude::*};
use reenact_projections::metrics::MetricsRow;

type Failed = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (960, 540);
/// The room for the legend, at the right.
const LEGEND: u32 = 112;
const COMPLETED: RGBColor = RGBColor(46, 125, 90);
const FAILED: RGBColor = RGBColor(192, 57, 43);
const CANCELLED: RGBColor = RGBColor(149, 152, 158);
const OPEN: RGBColor = RGBColor(66, 116, 190);
const READ: RGBColor = RGBColor(94, 129, 172);
const WRITTEN: RGBColor = RGBColor(208, 135, 70);

/// A kind of bar: what it is called, its colour, and how high it is on a day.
type Kind = (&'static str, RGBColor, fn(&MetricsRow) -> u64);

const RUNS: [Kind; 4] = [
    ("completed", COMPLETED, |day| of_status(day, &["COMPLETED"])),
    ("failed", FAILED, |day| of_status(day, &["ERROR"])),
    ("cancelled", CANCELLED, |day| of_status(day, &["CANCELLED"])),
    ("open", OPEN, |day| of_status(day, &["PENDING", "RUNNING", "PAUSED"])),
];
const TOKENS: [Kind; 2] = [
    ("read", READ, |day| day.token_metrics.input_tokens.unwrap_or(0)),
    ("written", WRITTEN, |day| day.token_metrics.output_tokens.unwrap_or(0)),
];

fn of_status(day: &MetricsRow, statuses: &[&str]) -> u64 {
    statuses.iter().filter_map(|status| day.status_metrics.get(*status)).sum()
}

/// The picture of these days, which are in order.
///
/// # Errors
/// When it cannot be drawn, which for a text nothing brings about.
pub(crate) fn of_days(days: &[MetricsRow]) -> Result<String, String> {
    let mut svg = String::new();
    draw(days, SVGBackend::with_string(&mut svg, SIZE).into_drawing_area()).map_err(|error| error.to_string())?;
    Ok(svg)
}

fn draw(days: &[MetricsRow], area: Area<'_>) -> Result<(), Failed> {
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(SIZE.1 / 2);
    bars(days, &upper, "Runs by the day they were accepted (UTC)", &RUNS)?;
    bars(days, &lower, "Tokens of these runs", &TOKENS)?;
    area.present()
}

/// Bars on each other, a day beside the other; days on which nothing was done are empty.
fn bars(days: &[MetricsRow], area: &Area<'_>, title: &str, kinds: &[Kind]) -> Result<(), Failed> {
    let dated: Vec<(NaiveDate, &MetricsRow)> =
        days.iter().filter_map(|day| Some((day.date.parse().ok()?, day))).collect();
    let (Some((first, _)), Some((last, _))) = (dated.first(), dated.last()) else {
        return area.draw(&Text::new(format!("{title}: none"), (20, 20), ("sans-serif", 18)));
    };
    let end = last.checked_add_days(Days::new(1)).unwrap_or(*last);
    let height = |day: &MetricsRow| kinds.iter().map(|(_, _, of)| of(day)).sum::<u64>();
    let highest = dated.iter().map(|(_, day)| height(day)).max().unwrap_or(0).max(1);
    legend(area, kinds)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .margin_right(LEGEND)
        .x_label_area_size(28)
        .y_label_area_size(72)
        .build_cartesian_2d(*first..end, 0..highest + highest.div_ceil(10))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .y_label_formatter(&|count| grouped(*count))
        .draw()?;
    for (place, (_, colour, _)) in kinds.iter().enumerate() {
        let boxes = dated.iter().map(|(date, day)| {
            let below: u64 = kinds[..place].iter().map(|(_, _, of)| of(day)).sum();
            let next = date.checked_add_days(Days::new(1)).unwrap_or(*date);
            let mut bar = Rectangle::new([(*date, below), (next, below + kinds[place].2(day))], colour.filled());
            bar.set_margin(0, 0, 2, 2);
            bar
        });
        chart.draw_series(boxes)?;
    }
    Ok(())
}

/// What the colours mean, beside the bars and never on them.
fn legend(area: &Area<'_>, kinds: &[Kind]) -> Result<(), Failed> {
    let left = i32::try_from(SIZE.0 - LEGEND + 14).unwrap_or(0);
    for ((name, colour, _), top) in kinds.iter().zip((44..).step_by(20)) {
        area.draw(&Rectangle::new([(left, top), (left + 12, top + 12)], colour.filled()))?;
        area.draw(&Text::new(*name, (left + 18, top), ("sans-serif", 13)))?;
    }
    Ok(())
}

/// `1234567` as `1 234 567`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}
