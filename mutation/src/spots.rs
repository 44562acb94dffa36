//! Where in a file the breaks go.

use std::collections::HashMap;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::listed::{Genre, Listed};

/// Bytes of a file.
pub(crate) type Bytes = Range<usize>;

/// A place that can be broken, with the breaks it has.
#[derive(Debug)]
pub(crate) struct Spot<'a> {
    /// All that is written anew.
    pub(crate) bytes: Bytes,
    pub(crate) form: Form,
    pub(crate) breaks: Vec<&'a Listed>,
}

/// What is there.
#[derive(Debug)]
pub(crate) enum Form {
    /// The beginning of a function's body; nothing is written anew.
    Body,
    /// Two values and an operator.
    Binary { left: Bytes, operator: Bytes, right: Bytes },
    /// An operator and a value.
    Unary { operator: Bytes, operand: Bytes },
    /// The end of an arm's pattern where no condition follows.
    Arm,
    /// The condition of an arm.
    Guard,
    /// A struct expression with a base: for each break, the bytes of the field that is then taken from the base.
    Fields(Vec<Bytes>),
}

/// The spots of a file, and what has none.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) spots: Vec<Spot<'a>>,
    /// These cannot compile, however they are written.
    pub(crate) unviable: Vec<&'a Listed>,
    /// For these there is no form here.
    pub(crate) lost: Vec<&'a Listed>,
}

/// Finds the spots of a file.
pub(crate) fn find<'a>(text: &str, breaks: &[&'a Listed]) -> Result<Found<'a>, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut at: HashMap<usize, Vec<&Listed>> = HashMap::new();
    for one in breaks {
        at.entry(offset(text, one)?).or_default().push(one);
    }
    let mut finder = Finder { at, spots: Vec::new(), unviable: Vec::new() };
    finder.visit_file(&file);
    let placed = finder.spots.iter().flat_map(|spot| &spot.breaks).chain(&finder.unviable);
    let placed: Vec<usize> = placed.map(|one| one.id).collect();
    let lost = breaks.iter().copied().filter(|one| !placed.contains(&one.id)).collect();
    // What is only added comes first, then the outermost, so that what lies within another is met within it.
    finder.spots.sort_by_key(|spot| (spot.bytes.start, !spot.bytes.is_empty(), usize::MAX - spot.bytes.end));
    Ok(Found { spots: finder.spots, unviable: finder.unviable, lost })
}

/// The byte at which a break's place begins.
pub(crate) fn offset(text: &str, one: &Listed) -> Result<usize, String> {
    let place = one.span.start;
    let mut start = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number + 1 == place.line {
            let within = line.char_indices().nth(place.column - 1).map(|(byte, _)| byte);
            return within.map(|byte| start + byte).ok_or_else(|| format!("{}: no such column", one.name));
        }
        start += line.len();
    }
    Err(format!("{}: no such line", one.name))
}

/// Where a node lies.
pub(crate) fn bytes(node: &impl Spanned) -> Bytes {
    node.span().byte_range()
}

/// Whether an operand of `&&` is a pattern, or ends in one.
fn is_let(operand: &syn::Expr) -> bool {
    match operand {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) => {
            is_let(&binary.left) || is_let(&binary.right)
        }
        _ => false,
    }
}

struct Finder<'a> {
    at: HashMap<usize, Vec<&'a Listed>>,
    spots: Vec<Spot<'a>>,
    unviable: Vec<&'a Listed>,
}

impl<'a> Finder<'a> {
    /// The breaks of some genres whose place begins here.
    fn take(&self, at: usize, genres: &[Genre]) -> Vec<&'a Listed> {
        let here = self.at.get(&at).map_or(&[] as &[_], Vec::as_slice);
        here.iter().copied().filter(|one| genres.contains(&one.genre)).collect()
    }

    fn add(&mut self, bytes: Bytes, form: Form, breaks: Vec<&'a Listed>) {
        if !breaks.is_empty() {
            self.spots.push(Spot { bytes, form, breaks });
        }
    }

    fn body(&mut self, block: &syn::Block) {
        let Some(first) = block.stmts.first() else { return };
        let start = bytes(first).start;
        let mut breaks = self.take(start, &[Genre::FnValue]);
        // A function that hides what iterator it answers can answer only one.
        breaks.retain(|one| !one.replacement.contains("::std::iter::"));
        self.add(start..start, Form::Body, breaks);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.body(&node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.body(&node.block);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.body(block);
        }
        visit::visit_trait_item_fn(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        let operator = bytes(&node.op);
        let breaks = self.take(operator.start, &[Genre::BinaryOperator]);
        if is_let(&node.left) || is_let(&node.right) {
            // `||` and a pattern do not go together.
            self.unviable.extend(breaks);
            return visit::visit_expr_binary(self, node);
        }
        let form = Form::Binary { left: bytes(&node.left), operator, right: bytes(&node.right) };
        self.add(bytes(node), form, breaks);
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        let operator = bytes(&node.op);
        let breaks = self.take(operator.start, &[Genre::UnaryOperator]);
        self.add(bytes(node), Form::Unary { operator, operand: bytes(&node.expr) }, breaks);
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast syn::ExprStruct) {
        let fields = node.fields.iter().map(|field| bytes(field).start);
        let starts: Vec<_> = fields.chain(node.dot2_token.iter().map(|base| bytes(base).start)).collect();
        let (mut breaks, mut gone) = (Vec::new(), Vec::new());
        for (&start, &next) in starts.iter().zip(starts.iter().skip(1)) {
            for one in self.take(start, &[Genre::StructField]) {
                breaks.push(one);
                gone.push(start..next);
            }
        }
        self.add(bytes(node), Form::Fields(gone), breaks);
        visit::visit_expr_struct(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        let mut breaks = self.take(bytes(node).start, &[Genre::MatchArm]);
        if let syn::Pat::Guard(guarded) = &node.pat {
            let guard = bytes(&guarded.guard);
            breaks.extend(self.take(guard.start, &[Genre::MatchArmGuard]));
            self.add(guard, Form::Guard, breaks);
        } else {
            let end = bytes(&node.pat).end;
            self.add(end..end, Form::Arm, breaks);
        }
        visit::visit_arm(self, node);
    }
}
