//! A card: a title, lines, and smaller cards in it. It knows how large it has to be before it is drawn, so that nothing overlaps.

use super::canvas::{BADGE, Canvas, Class, Point, width};

const PADDING: u32 = 10;
const TITLE_HEIGHT: u32 = 20;
const LINE_HEIGHT: u32 = 17;
const INNER_GAP: u32 = 6;
const BADGE_GAP: u32 = 4;

/// The longest text; of a longer one the middle is left out.
const LONGEST: usize = 56;

/// A card.
#[derive(Clone, Debug)]
pub(super) struct Card {
    class: Class,
    title: String,
    /// Behind the title.
    note: String,
    /// The Services whose numbers are at its right edge.
    badges: Vec<usize>,
    lines: Vec<(Class, String)>,
    inner: Vec<Card>,
}

impl Card {
    pub(super) fn new(class: Class, title: &str, note: &str) -> Self {
        let (title, note) = (shorten(title), shorten(note));
        Self { class, title, note, badges: Vec::new(), lines: Vec::new(), inner: Vec::new() }
    }

    /// With another line, unless there is nothing to say.
    pub(super) fn line(mut self, class: Class, text: &str) -> Self {
        if !text.is_empty() {
            self.lines.push((class, shorten(text)));
        }
        self
    }

    pub(super) fn badges(mut self, badges: Vec<usize>) -> Self {
        self.badges = badges;
        self
    }

    pub(super) fn inner(mut self, inner: Vec<Self>) -> Self {
        self.inner = inner;
        self
    }

    /// How wide it has to be.
    pub(super) fn width(&self) -> u32 {
        let badges = u32::try_from(self.badges.len()).unwrap_or(0) * (BADGE.x + BADGE_GAP);
        let title = width(Class::Title, &self.title) + self.note_width() + badges;
        let lines = self.lines.iter().map(|(class, text)| width(*class, text)).max().unwrap_or(0);
        let inner = self.inner.iter().map(Self::width).max().unwrap_or(0);
        title.max(lines).max(inner) + 2 * PADDING
    }

    fn note_width(&self) -> u32 {
        if self.note.is_empty() { 0 } else { BADGE_GAP * 2 + width(Class::Faint, &self.note) }
    }

    /// How high it has to be.
    pub(super) fn height(&self) -> u32 {
        let lines = u32::try_from(self.lines.len()).unwrap_or(0) * LINE_HEIGHT;
        let inner: u32 = self.inner.iter().map(|card| card.height() + INNER_GAP).sum();
        2 * PADDING + TITLE_HEIGHT - BADGE_GAP + lines + inner
    }

    /// Draws it at a place, as large as is said.
    pub(super) fn draw(&self, canvas: &mut Canvas, corner: Point, width: u32, height: u32) {
        canvas.rect(corner, width, height, self.class);
        let left = corner.x + PADDING;
        let mut y = corner.y + PADDING;
        canvas.text(Point { x: left, y: y + 11 }, Class::Title, &self.title);
        if !self.note.is_empty() {
            let x = left + self::width(Class::Title, &self.title) + 2 * BADGE_GAP;
            canvas.text(Point { x, y: y + 11 }, Class::Faint, &self.note);
        }
        self.draw_badges(canvas, Point { x: corner.x + width - PADDING, y });
        y += TITLE_HEIGHT;
        for (class, text) in &self.lines {
            canvas.text(Point { x: left, y: y + 11 }, *class, text);
            y += LINE_HEIGHT;
        }
        for card in &self.inner {
            card.draw(canvas, Point { x: left, y }, width - 2 * PADDING, card.height());
            y += card.height() + INNER_GAP;
        }
    }

    /// Draws the numbers from the right edge to the left, in their order.
    fn draw_badges(&self, canvas: &mut Canvas, right: Point) {
        for (place, badge) in (1..).zip(self.badges.iter().rev()) {
            canvas.badge(Point { x: right.x + BADGE_GAP - place * (BADGE.x + BADGE_GAP), ..right }, *badge);
        }
    }
}

fn shorten(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= LONGEST {
        return text.to_owned();
    }
    let half = (LONGEST - 1) / 2;
    letters[..half].iter().chain(['…'].iter()).chain(&letters[letters.len() - half..]).collect()
}
