//! Ten years of due times in zones of every kind, beside Python's own calendar: no fire differs.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use reenact_actors::schedule::calendar::{Calendar, zone};
use reenact_events::Timestamp;
use serde_json::json;

use crate::server::python;

/// 2026-01-01 and 2036-01-01, UTC.
const YEARS: (i64, i64) = (1_767_225_600, 2_082_758_400);

/// With daylight saving in both halves of the year, of half an hour, at midnight and in Ramadan; with odd offsets; and
/// without any change.
const ZONES: [&str; 12] = [
    "UTC",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Europe/Berlin",
    "Europe/London",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
];

const FIELDS: [&str; 11] = [
    "30 1 * * *",
    "30 2 * * *",
    "0 0 * * *",
    "15,45 0-3 * * *",
    "0 9 * * 1-5",
    "30 2 * * 0",
    "0 0 29 2 *",
    "10 3 1,15 * 5",
    "59 23 31 12 *",
    "17 * * * *",
    "*/30 */2 * * *",
];

#[test]
fn a18_ten_years_of_due_times_are_those_of_an_independent_calendar() {
    let (first, last) = YEARS;
    let asked: Vec<_> = ZONES.iter().flat_map(|zone| FIELDS.iter().map(|fields| (*zone, *fields))).collect();
    let question: Vec<_> = asked.iter().map(|(zone, fields)| json!([zone, fields, first, last])).collect();
    let answers = python_says(&json!(question).to_string());
    assert_eq!(answers.len(), asked.len());
    for ((zone, fields), expected) in asked.iter().zip(answers) {
        let dues = dues(zone, fields, first, last);
        let differs = dues.iter().zip(&expected).position(|(ours, theirs)| ours != theirs);
        let at = differs.map(|at| (dues[at], expected[at]));
        assert_eq!((at, dues.len()), (None, expected.len()), "`{fields}` in {zone}: ours and theirs");
    }
}

fn dues(name: &str, fields: &str, first: i64, last: i64) -> Vec<i64> {
    let calendar = Calendar::parse(fields, zone(name).expect("a zone")).expect("five fields");
    let begin = calendar.after(Timestamp(first * 1_000));
    let dues = std::iter::successors(begin, |due| calendar.after(*due)).map(Timestamp::seconds);
    dues.take_while(|due| *due <= last).collect()
}

fn python_says(question: &str) -> Vec<Vec<i64>> {
    let mut child = Command::new(python())
        .args(["-c", include_str!("due_times.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    child.stdin.take().expect("is piped").write_all(question.as_bytes()).expect("Python reads");
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "Python gave no answer");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
