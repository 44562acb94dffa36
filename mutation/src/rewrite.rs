//! Writes a file anew, with every break behind a question.

use std::fmt::Write;

use crate::listed::Listed;
use crate::spots::{Bytes, Form, Spot};

/// Writes the whole file anew. `core` says whether it belongs to the crate that answers the questions.
pub(crate) fn rewrite(text: &str, spots: &[Spot<'_>], core: bool) -> String {
    Writer { text, spots, answers: if core { "crate" } else { "turnkeep_core" } }.part(0..text.len(), None)
}

/// The breaks whose code the bytes of a written file touch, the innermost marks first.
pub(crate) fn blamed(written: &str, bytes: &Bytes) -> Vec<usize> {
    let mut innermost = Vec::new();
    for (at, opening) in written[..bytes.start.min(written.len())].match_indices("/*<") {
        let Some(end) = written[at..].find("*/") else { continue };
        let label = &written[at + opening.len()..at + end];
        let closing = format!("/*{label}>*/");
        // Marks of one break may occur in several copies; the first closing one after it is its own.
        let Some(close) = written[at..].find(&closing).map(|found| at + found) else { continue };
        if close >= bytes.start {
            // A break's own mark names it alone; a spot's, all breaks of the spot.
            let ids = label.strip_prefix("spot ").unwrap_or(label);
            innermost = ids.split(' ').filter_map(|id| id.parse().ok()).collect();
        }
    }
    innermost
}

struct Writer<'a> {
    text: &'a str,
    spots: &'a [Spot<'a>],
    answers: &'static str,
}

impl Writer<'_> {
    /// The question whether a break is committed.
    fn asks(&self, one: &Listed) -> String {
        format!("{}::mutant::is(\"#{}\")", self.answers, one.id)
    }

    /// A part of the file with all its spots written anew, but for the one that asks for it.
    fn part(&self, bytes: Bytes, asking: Option<usize>) -> String {
        let mut out = String::new();
        let mut done = bytes.start;
        for (at, spot) in self.spots.iter().enumerate() {
            let within = spot.bytes.start >= done && spot.bytes.end <= bytes.end;
            // A body begins where its first value begins, and is written before it, not within it.
            let body = asking.is_some() && matches!(spot.form, Form::Body);
            if !within || body || Some(at) == asking {
                continue;
            }
            out.push_str(&self.text[done..spot.bytes.start]);
            out.push_str(&self.spot(at, spot));
            done = spot.bytes.end;
        }
        out.push_str(&self.text[done..bytes.end]);
        out
    }

    fn spot(&self, at: usize, spot: &Spot<'_>) -> String {
        let ids: Vec<String> = spot.breaks.iter().map(|one| one.id.to_string()).collect();
        let label = format!("spot {}", ids.join(" "));
        let inner = match &spot.form {
            Form::Body => self.choices(spot, |one| format!("return {};", one.replacement), ""),
            Form::Binary { left, operator, right } => {
                let sign = &self.text[operator.clone()];
                let (left, right) = (self.part(left.clone(), Some(at)), self.part(right.clone(), Some(at)));
                if sign == "&&" || sign == "||" {
                    let chosen = self.choices(
                        spot,
                        |one| format!("left {} ({right})", one.replacement),
                        &format!("left {sign} ({right})"),
                    );
                    format!("({{ let left: bool = {left}; {chosen} }})")
                } else {
                    let chosen = self.choices(
                        spot,
                        |one| format!("{left} {} {right}", one.replacement),
                        &format!("{left} {sign} {right}"),
                    );
                    // An assignment is a statement, and may stand where only a block or an expression can.
                    format!("({chosen})")
                }
            }
            Form::Unary { operator, operand } => {
                let sign = &self.text[operator.clone()];
                let chosen = self.choices(spot, |_| "operand".to_owned(), &format!("{sign}operand"));
                format!("({{ let operand = {}; {chosen} }})", self.part(operand.clone(), Some(at)))
            }
            Form::Arm => {
                let gone: Vec<String> =
                    spot.breaks.iter().map(|one| mark(one, &format!("!{}", self.asks(one)))).collect();
                format!(" if {}", gone.join(" && "))
            }
            Form::Fields(gone) => {
                let part = |bytes| self.part(bytes, Some(at));
                let without = |one: &Listed| {
                    let field = spot.breaks.iter().zip(gone).find(|(known, _)| known.id == one.id);
                    let field = field.map_or(spot.bytes.end..spot.bytes.end, |(_, field)| field.clone());
                    part(spot.bytes.start..field.start) + &part(field.end..spot.bytes.end)
                };
                format!("({{ {} }})", self.choices(spot, without, &part(spot.bytes.clone())))
            }
            Form::Guard => {
                let mut guard = format!("({})", self.part(spot.bytes.clone(), Some(at)));
                for one in &spot.breaks {
                    let asks = mark(one, &self.asks(one));
                    guard = match one.replacement.as_str() {
                        "true" => format!("({asks} || {guard})"),
                        _ => format!("(!{asks} && {guard})"),
                    };
                }
                guard
            }
        };
        format!("/*<{label}*/{inner}/*{label}>*/")
    }

    /// `if` after `if`, one for each break, and what is there without any.
    fn choices(&self, spot: &Spot<'_>, broken: impl Fn(&Listed) -> String, whole: &str) -> String {
        let mut out = String::new();
        for one in &spot.breaks {
            let _ = write!(out, "if {} {{ {} }} else ", self.asks(one), mark(one, &broken(one)));
        }
        let _ = write!(out, "{{ {whole} }}");
        out
    }
}

fn mark(one: &Listed, code: &str) -> String {
    format!("/*<{id}*/{code}/*{id}>*/", id = one.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spots;

    fn listed(id: usize, genre: &str, replacement: &str, line: usize, column: usize) -> Listed {
        let json = serde_json::json!({
            "name": format!("break {id}"), "file": "a.rs", "genre": genre, "replacement": replacement,
            "span": { "start": { "line": line, "column": column } },
        });
        Listed { id, ..serde_json::from_value(json).unwrap() }
    }

    const TEXT: &str = "fn f(a: bool, b: u8) -> bool {\n    a && !(b + 1 == 2)\n}\n";

    #[test]
    fn every_break_is_behind_a_question_and_the_rest_is_as_it_was() {
        let breaks = [
            listed(0, "FnValue", "true", 2, 5),
            listed(1, "BinaryOperator", "||", 2, 7),
            listed(2, "UnaryOperator", "", 2, 10),
            listed(3, "BinaryOperator", "-", 2, 14),
            listed(4, "BinaryOperator", "!=", 2, 18),
        ];
        let breaks: Vec<&Listed> = breaks.iter().collect();
        let found = spots::find(TEXT, &breaks).unwrap();
        assert!(found.lost.is_empty() && found.unviable.is_empty(), "{found:?}");
        let written = rewrite(TEXT, &found.spots, true);
        syn::parse_file(&written).unwrap();
        for id in 0..5 {
            assert!(written.contains(&format!("is(\"#{id}\")")), "{written}");
        }
    }

    #[test]
    fn a_condition_of_an_arm_and_what_is_in_it_are_broken_one_by_one() {
        let text =
            "fn f(a: u8) -> u8 {\n    match a {\n        b if b < 3 => 1,\n        _ => 2,\n    }\n}\n";
        let breaks = [
            listed(0, "MatchArmGuard", "true", 3, 14),
            listed(1, "MatchArmGuard", "false", 3, 14),
            listed(2, "BinaryOperator", "<=", 3, 16),
        ];
        let breaks: Vec<&Listed> = breaks.iter().collect();
        let found = spots::find(text, &breaks).unwrap();
        assert!(found.lost.is_empty(), "{found:?}");
        let written = rewrite(text, &found.spots, true);
        syn::parse_file(&written).unwrap();
        let guard = |at: &str| written.find(at).unwrap_or_else(|| panic!("{at} is not in {written}"));
        let (no, yes) =
            (guard("!/*<1*/crate::mutant::is(\"#1\")/*1>*/ &&"), guard("crate::mutant::is(\"#0\")/*0>*/ ||"));
        let operator = guard("if crate::mutant::is(\"#2\") { /*<2*/b <= 3/*2>*/ } else { b < 3 }");
        assert!(no < yes && yes < operator, "{written}");
    }

    #[test]
    fn a_field_is_taken_from_the_base() {
        let text = "fn f(s: S) -> S {\n    S { a: 1 + 2, b: 2, ..s }\n}\n";
        let breaks = [
            listed(0, "StructField", "", 2, 9),
            listed(1, "StructField", "", 2, 19),
            listed(2, "BinaryOperator", "-", 2, 14),
        ];
        let breaks: Vec<&Listed> = breaks.iter().collect();
        let found = spots::find(text, &breaks).unwrap();
        assert!(found.lost.is_empty(), "{found:?}");
        let written = rewrite(text, &found.spots, true);
        syn::parse_file(&written).unwrap();
        assert!(written.contains("/*<0*/S { b: 2, ..s }/*0>*/"), "{written}");
        assert!(
            written.contains(", ..s }/*1>*/") && written.contains("b: 2, ..s } } })/*spot 0 1>*/"),
            "{written}"
        );
    }

    #[test]
    fn an_error_is_blamed_on_the_innermost_break() {
        let breaks = [listed(0, "FnValue", "true", 2, 5), listed(1, "BinaryOperator", "||", 2, 7)];
        let breaks: Vec<&Listed> = breaks.iter().collect();
        let written = rewrite(TEXT, &spots::find(TEXT, &breaks).unwrap().spots, true);
        let returns = written.find("return true").unwrap();
        assert_eq!(blamed(&written, &(returns..returns + 4)), [0]);
        let or = written.find("left ||").unwrap();
        assert_eq!(blamed(&written, &(or..or + 4)), [1]);
        assert!(blamed(&written, &(3..4)).is_empty());
    }
}
