//! Tables that fit the terminal.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width};

use super::Out;
use crate::failure::Outcome;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// How a column takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As wide as its content, never cut: ids, times.
    Whole,
    /// As wide as its content, to the right: numbers.
    Number,
    /// Whatever room is left; what does not fit is cut with an ellipsis.
    Rest,
}

/// Makes a column.
pub(crate) const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

impl Out {
    /// Writes a table; a row is one line. The cells must be made safe before.
    pub(crate) fn table(&mut self, columns: &[Column], rows: Vec<Vec<String>>) -> Outcome<()> {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_truncation_indicator("…");
        match self.width {
            Some(width) => {
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.set_width(width);
            }
            None => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        if self.paint.is_on() {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(columns.iter().map(|column| {
            let cell = Cell::new(column.name);
            if self.paint.is_on() { cell.add_attribute(Attribute::Bold) } else { cell }
        }));
        for cells in rows {
            let mut row = Row::from(cells);
            row.max_height(1);
            table.add_row(row);
        }
        for (at, column) in columns.iter().enumerate() {
            let Some(shown) = table.column_mut(at) else { continue };
            shown.set_padding((0, 2));
            match column.kind {
                Kind::Whole => {
                    shown.set_constraint(ColumnConstraint::ContentWidth);
                }
                Kind::Number => {
                    shown.set_constraint(ColumnConstraint::ContentWidth);
                    shown.set_cell_alignment(CellAlignment::Right);
                }
                Kind::Rest => {
                    shown.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(8)));
                }
            }
        }
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }
}
