//! What a new connection costs as services become more: measured, and drawn.

use std::fmt::Write;

use crate::scenario::{self, Scenario};
use crate::{Figure, Newcomers, ROUNDS, Rounds, print_rounds};

/// How many services there are, point by point.
const POINTS: [u32; 6] = [10, 100, 1_000, 3_000, 10_000, 30_000];

/// What may lie between the dearest point and the cheapest.
const FLAT: f64 = 1.5;

/// A point: how many services, and nanoseconds for a new connection to one of them.
type Point = (u32, f64);

/// Measures all points and prints them.
pub(crate) fn measure() -> Vec<Point> {
    let scenarios: Vec<Scenario> = POINTS.iter().map(|services| Scenario::services(*services, 0)).collect();
    let newcomers = |(scenario, services)| Newcomers::new(scenario, move |number| scenario::question(number, services));
    let mut newcomers: Vec<_> = scenarios.iter().zip(POINTS).map(newcomers).collect();
    let mut figures: Vec<Vec<Figure>> = POINTS.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        newcomers.iter_mut().zip(&mut figures).for_each(|(newcomers, figures)| figures.push(newcomers.run()));
    }
    let mut points = Vec::new();
    for ((services, scenario), figures) in POINTS.into_iter().zip(&scenarios).zip(figures) {
        let rounds = Rounds::of(figures);
        print_rounds(&scenario.name, &rounds);
        points.push((services, rounds.least.nanoseconds));
    }
    let flatness = spread(&points);
    let verdict = if flatness <= FLAT { "flat" } else { "NOT flat" };
    println!("the dearest point is {flatness:.2} times the cheapest: {verdict}, as up to {FLAT} is allowed");
    points
}

/// The dearest point against the cheapest.
fn spread(points: &[Point]) -> f64 {
    let cost = |point: &Point| point.1;
    let most = points.iter().map(cost).fold(0.0, f64::max);
    most / points.iter().map(cost).fold(f64::INFINITY, f64::min)
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// Room for what is written at the left and below.
const LEFT: f64 = 70.0;
const BELOW: f64 = 60.0;
const ABOVE: f64 = 40.0;
const RIGHT: f64 = 30.0;

/// The points as a picture. The axis of services is logarithmic, that of time begins at zero.
pub(crate) fn draw(points: &[Point]) -> String {
    let top = (points.iter().map(|point| point.1).fold(0.0, f64::max) / 1000.0 * 1.4).ceil().max(1.0) * 1000.0;
    let (first, last) = (f64::from(POINTS[0]).log10(), f64::from(POINTS[POINTS.len() - 1]).log10());
    let across = |services: u32| LEFT + (f64::from(services).log10() - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let up = |nanoseconds: f64| HEIGHT - BELOW - nanoseconds / top * (HEIGHT - BELOW - ABOVE);
    let mut body = String::new();
    let mut add = |line: std::fmt::Arguments<'_>| _ = writeln!(body, "  {line}");
    add(format_args!(r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#));
    add(format_args!(r#"<text x="{LEFT}" y="24" font-weight="bold">A new connection to a Service: microseconds of one core</text>"#));
    for microseconds in 0..=(top / 1000.0) as u32 {
        let y = up(f64::from(microseconds) * 1000.0);
        add(format_args!(r##"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#ddd"/>"##, WIDTH - RIGHT));
        add(format_args!(r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{microseconds}</text>"#, LEFT - 8.0, y + 4.0));
    }
    for (services, _) in points {
        let x = across(*services);
        add(format_args!(r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{services}</text>"#, HEIGHT - BELOW + 20.0));
    }
    add(format_args!(r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">services</text>"#, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14.0));
    let line: Vec<String> = points.iter().map(|(services, cost)| format!("{:.1},{:.1}", across(*services), up(*cost))).collect();
    add(format_args!(r##"<polyline points="{}" fill="none" stroke="#0b61a4" stroke-width="2"/>"##, line.join(" ")));
    for (services, cost) in points {
        let (x, y) = (across(*services), up(*cost));
        add(format_args!(r##"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="#0b61a4"/>"##));
        add(format_args!(r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{:.2}</text>"#, y - 10.0, cost / 1000.0));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n{body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_holds_every_point() {
        let points: Vec<Point> = POINTS.into_iter().zip([2100.0, 2200.0, 2300.0, 2250.0, 2400.0, 2150.0]).collect();
        let picture = draw(&points);
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        assert_eq!(picture.matches("<circle").count(), POINTS.len());
        assert!(picture.contains(">2.40<") && picture.contains(">30000<"));
    }

    #[test]
    fn the_spread_is_of_the_extremes() {
        assert!((spread(&[(10, 100.0), (100, 250.0), (1000, 200.0)]) - 2.5).abs() < 1e-9);
    }
}
