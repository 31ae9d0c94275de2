//! A lab as a picture: an SVG of its hosts, networks, pods and Services, with their addresses.
//!
//! ```text
//!  router ── outside   cluster
//!    ├─┬──────┬
//!    │ node   node            pods are in their nodes, with the numbers of the Services that lead to them
//!    ├─┬──────┬
//!    │ node   node
//!  Services
//! ```
//!
//! Lines from every Service to every pod could not be followed in any lab but the smallest. So each Service has a number and a colour, and its
//! pods carry them.

mod canvas;
mod card;
mod content;
mod grid;
#[cfg(test)]
mod tests;

use crate::status::Status;
use canvas::{Canvas, Class, Point};
use card::Card;
use grid::Grid;

/// What is left free around everything, and between cards.
const MARGIN: u32 = 24;
const GAP: u32 = 20;

/// How far nodes are from the left, so that the line to them has a place.
const TRUNK: u32 = 20;

/// What is left free above a row of nodes for the line that connects them.
const BUS: u32 = 16;

/// A lab as the text of an SVG file.
pub fn svg(status: &Status) -> String {
    let mut canvas = Canvas::default();
    canvas.text(Point { x: MARGIN, y: MARGIN + 14 }, Class::Heading, &format!("lab {}", status.name));
    let top = MARGIN + 30;
    let (trunk, below) = draw_head(&mut canvas, status, top);
    let below = draw_nodes(&mut canvas, status, trunk, below);
    draw_services(&mut canvas, status, below);
    canvas.finish(MARGIN)
}

/// The router, the host outside and the cluster side by side. Returns where the line to the nodes begins, and where the next thing may.
fn draw_head(canvas: &mut Canvas, status: &Status, top: u32) -> (Point, u32) {
    let cards = [content::router(status), content::outside(status), content::cluster(status)];
    let height = cards.iter().map(Card::height).max().unwrap_or(0);
    let mut x = MARGIN;
    for (position, card) in cards.iter().enumerate() {
        let corner = Point { x, y: top };
        card.draw(canvas, corner, card.width(), height);
        let right = x + card.width();
        x = right + 2 * GAP;
        if position == 0 {
            let y = top + height / 2;
            canvas.line(Point { x: right, y }, Point { x, y });
        }
    }
    (Point { x: MARGIN + TRUNK / 2, y: top + height }, top + height + GAP)
}

/// The nodes in rows, all connected with the router.
fn draw_nodes(canvas: &mut Canvas, status: &Status, trunk: Point, top: u32) -> u32 {
    let cards: Vec<Card> = status.nodes.iter().map(|node| content::node(status, node)).collect();
    let grid = Grid::new(&cards, grid::columns(cards.len()), GAP, GAP + BUS);
    let corner = Point { x: MARGIN + 2 * TRUNK, y: top + BUS };
    let mut end = trunk;
    for row in grid.rows() {
        let bus = corner.y + row.y - BUS;
        for (position, card) in row.cards.iter().enumerate() {
            let place = Point { x: corner.x + grid.x(position), y: corner.y + row.y };
            card.draw(canvas, place, grid.width, row.height);
            end = Point { x: place.x + grid.width / 2, y: bus };
            canvas.line(end, Point { y: place.y, ..end });
        }
        canvas.line(Point { x: trunk.x, y: bus }, end);
    }
    canvas.line(trunk, Point { x: trunk.x, y: end.y });
    corner.y + grid.height() + GAP
}

/// The Services in rows, as wide together as the nodes.
fn draw_services(canvas: &mut Canvas, status: &Status, top: u32) {
    if status.services.is_empty() {
        return;
    }
    canvas.text(Point { x: MARGIN, y: top + 14 }, Class::Heading, "Services");
    let cards: Vec<Card> = status.services.iter().enumerate().map(|(number, service)| content::service(number, service)).collect();
    let width = cards.iter().map(Card::width).max().unwrap_or(0) + GAP;
    let columns = (canvas.right().saturating_sub(MARGIN) + GAP) / width;
    let grid = Grid::new(&cards, usize::try_from(columns.max(1)).unwrap_or(1), GAP, GAP);
    for row in grid.rows() {
        for (position, card) in row.cards.iter().enumerate() {
            card.draw(canvas, Point { x: MARGIN + grid.x(position), y: top + 30 + row.y }, grid.width, row.height);
        }
    }
}
