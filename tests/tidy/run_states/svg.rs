//! Draws the picture. Every number is whole, so the same table gives the same bytes everywhere.

use std::fmt::Write;

use reenact_events::event::RunStatus;

use super::{
    Arrow,
    places::{BEGIN, BOX, SIZE, WAYS, Way, place, remark},
};

/// How far the corners of a way are rounded.
const ROUND: i32 = 14;

const STYLE: &str = "\
  <style>
    text { font-family: ui-sans-serif, system-ui, 'DejaVu Sans', sans-serif; text-anchor: middle; fill: #1f2933 }
    .status { font-size: 16px; font-weight: 600 }
    .meaning { font-size: 12px; fill: #52606d }
    .event { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; font-size: 12px; fill: #364152 }
    .remark { font-size: 12px; font-style: italic; fill: #52606d }
    .open { fill: #e8f1fd; stroke: #3b74b8 }
    .waits { fill: #fdf5df; stroke: #b7892b }
    .well { fill: #e6f6ea; stroke: #3c8d55 }
    .end { fill: #f3f4f6; stroke: #6b7280 }
    .way { fill: none; stroke: #64748b; stroke-width: 1.6 }
  </style>
  <defs>
    <marker id=\"head\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">
      <path d=\"M0 0.8 L10 5 L0 9.2 Z\" fill=\"#64748b\"/>
    </marker>
  </defs>
";

/// The picture of these arrows, each with the events that make its move.
pub(super) fn draw(arrows: &[(Arrow, Vec<&str>)]) -> String {
    let (width, height) = SIZE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\">\n  <title>The statuses of a run, and the events that move it</title>\n"
    );
    svg.push_str(STYLE);
    let frame = format!("width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#ffffff\"");
    line(&mut svg, &format!("<rect {frame}/>"));
    for (arrow, events) in arrows {
        let way = WAYS.iter().find(|way| way.arrow == *arrow);
        draw_way(&mut svg, way.unwrap_or_else(|| panic!("`places.rs` has no way for the move {arrow:?}")), events);
    }
    let (x, y) = BEGIN;
    line(&mut svg, &format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"8\" fill=\"#1f2933\"/>"));
    let mut drawn: Vec<RunStatus> = Vec::new();
    for status in arrows.iter().flat_map(|((from, to), _)| from.iter().chain([to])) {
        if !drawn.contains(status) {
            drawn.push(*status);
            draw_status(&mut svg, *status);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, element: &str) {
    writeln!(svg, "  {element}").expect("a string takes what is written");
}

fn draw_status(svg: &mut String, status: RunStatus) {
    let ((x, y), meaning) = place(status);
    let class = match status {
        RunStatus::Paused => "waits",
        RunStatus::Completed => "well",
        status if status.is_end() => "end",
        _ => "open",
    };
    let ((width, height), round) = (BOX, if status.is_end() { 6 } else { BOX.1 / 2 });
    let (left, top) = (x - width / 2, y - height / 2);
    let frame = format!("x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"");
    line(svg, &format!("<rect class=\"{class}\" {frame} stroke-width=\"1.6\"/>"));
    text(svg, "status", (x, y - 1), status.as_str());
    text(svg, "meaning", (x, y + 16), meaning);
}

fn draw_way(svg: &mut String, way: &Way, events: &[&str]) {
    line(svg, &format!("<path class=\"way\" d=\"{}\" marker-end=\"url(#head)\"/>", path(way.corners)));
    let (x, mut y) = way.names;
    // One line where they belong together.
    let lines = match remark(way.arrow) {
        Some(_) => vec![events.join(" · ")],
        None => events.iter().map(|event| (*event).to_owned()).collect(),
    };
    for names in lines {
        text(svg, "event", (x, y), &names);
        y += way.line;
    }
    if let Some(remark) = remark(way.arrow) {
        text(svg, "remark", (x, y), remark);
    }
}

fn text(svg: &mut String, class: &str, (x, y): (i32, i32), text: &str) {
    line(svg, &format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"));
}

/// A line along the corners, each of them rounded.
fn path(corners: &[(i32, i32)]) -> String {
    let (first, last) = (corners[0], corners[corners.len() - 1]);
    let mut path = format!("M{} {}", first.0, first.1);
    for around in corners.windows(3) {
        let (from, at, to) = (around[0], around[1], around[2]);
        let ((before_x, before_y), (after_x, after_y)) = (towards(at, from), towards(at, to));
        write!(path, " L{before_x} {before_y} Q{} {} {after_x} {after_y}", at.0, at.1).expect("a string takes it");
    }
    write!(path, " L{} {}", last.0, last.1).expect("a string takes it");
    path
}

/// The point a little way from `at` to `other`, which lies straight above, below or beside it.
fn towards(at: (i32, i32), other: (i32, i32)) -> (i32, i32) {
    (at.0 + ROUND * (other.0 - at.0).signum(), at.1 + ROUND * (other.1 - at.1).signum())
}
