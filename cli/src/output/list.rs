//! Tables that fit the terminal.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table};

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
    /// As wide as its content, to the right: numbers. Left out where there is no room for it.
    Number,
    /// As wide as its content, left out where there is no room for it.
    Extra,
    /// Whatever room is left; what does not fit is cut with an ellipsis.
    Rest,
}

/// Blanks between two columns.
const GAP: u16 = 2;

/// Columns that a cut text must have left, to be worth the place.
const REST: usize = 10;

/// Makes a column.
pub(crate) const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

impl Out {
    /// Writes a table; a row is one line. The cells must be made safe before.
    pub(crate) fn table(&mut self, columns: &[Column], rows: Vec<Vec<String>>) -> Outcome<()> {
        let (columns, rows) = fitting(columns, rows, self.width);
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
            let last = at + 1 == columns.len();
            shown.set_padding((0, if last { 0 } else { GAP }));
            if column.kind != Kind::Rest {
                shown.set_constraint(ColumnConstraint::ContentWidth);
            }
            if column.kind == Kind::Number {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }
}

/// The columns that there is room for, and their cells. What could be left out goes from the right.
fn fitting(
    columns: &[Column],
    rows: Vec<Vec<String>>,
    width: Option<u16>,
) -> (Vec<Column>, Vec<Vec<String>>) {
    let mut kept: Vec<bool> = vec![true; columns.len()];
    if let Some(width) = width {
        let wide: Vec<usize> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| match column.kind {
                Kind::Rest => REST,
                _ => {
                    let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
                    cells.chain([column.name.len()]).max().unwrap_or(0)
                }
            })
            .collect();
        let needed = |kept: &[bool]| -> usize {
            wide.iter().zip(kept).filter(|(_, kept)| **kept).map(|(wide, _)| wide + usize::from(GAP)).sum()
        };
        for (at, column) in columns.iter().enumerate().rev() {
            let can_go = matches!(column.kind, Kind::Number | Kind::Extra);
            if can_go && needed(&kept) > usize::from(width) + usize::from(GAP) {
                kept[at] = false;
            }
        }
    }
    let keep = |at: usize| kept.get(at).copied().unwrap_or(true);
    let rows = rows
        .into_iter()
        .map(|row| row.into_iter().enumerate().filter(|(at, _)| keep(*at)).map(|(_, cell)| cell).collect())
        .collect();
    (columns.iter().enumerate().filter(|(at, _)| keep(*at)).map(|(_, column)| *column).collect(), rows)
}
