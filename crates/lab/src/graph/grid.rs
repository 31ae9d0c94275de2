//! Cards in rows and columns. All columns are equally wide; a row is as high as its highest card.

use super::card::Card;

/// How cards are arranged.
pub(super) struct Grid<'a> {
    cards: &'a [Card],
    columns: usize,
    /// How wide every card is.
    pub(super) width: u32,
    across: u32,
    down: u32,
}

/// A row.
pub(super) struct Row<'a> {
    /// Where it begins, from above.
    pub(super) y: u32,
    /// How high its cards are.
    pub(super) height: u32,
    /// Its cards.
    pub(super) cards: &'a [Card],
}

/// How many columns look well for so many cards: no more than five, and no more columns than rows beyond two.
pub(super) fn columns(cards: usize) -> usize {
    (1..5).find(|columns| columns * columns >= cards).unwrap_or(5).max(cards.min(3)).max(1)
}

impl<'a> Grid<'a> {
    /// Arranges cards, with gaps between columns and rows.
    pub(super) fn new(cards: &'a [Card], columns: usize, across: u32, down: u32) -> Self {
        Self { cards, columns, width: cards.iter().map(Card::width).max().unwrap_or(0), across, down }
    }

    /// Where a column begins, from the left.
    pub(super) fn x(&self, column: usize) -> u32 {
        u32::try_from(column).unwrap_or(0) * (self.width + self.across)
    }

    /// The rows.
    pub(super) fn rows(&self) -> Vec<Row<'a>> {
        let mut y = 0;
        let row = |cards: &'a [Card]| {
            let height = cards.iter().map(Card::height).max().unwrap_or(0);
            let row = Row { y, height, cards };
            y += height + self.down;
            row
        };
        self.cards.chunks(self.columns).map(row).collect()
    }

    /// How high all of it is.
    pub(super) fn height(&self) -> u32 {
        self.rows().last().map_or(0, |row| row.y + row.height)
    }
}
