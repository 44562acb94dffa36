//! Code that runs only where a named fault is committed. No published crate has it, so a break of it changes nothing.

use std::collections::HashMap;
use std::path::Path;

use syn::visit::{self, Visit};

use crate::listed::{Genre, Listed};
use crate::spots::{Bytes, bytes, offset};

/// Takes out the breaks that change nothing but the question of a named fault, or what follows from it.
pub(crate) fn leave_out(listed: Vec<Listed>, root: &Path) -> Result<Vec<Listed>, String> {
    let mut files: HashMap<String, (String, Questions)> = HashMap::new();
    let mut kept = Vec::new();
    for one in listed {
        if !files.contains_key(&one.file) {
            let text = std::fs::read_to_string(root.join(&one.file));
            let text = text.map_err(|error| format!("{}: {error}", one.file))?;
            let questions = Questions::of(&text).map_err(|error| format!("{}: {error}", one.file))?;
            files.insert(one.file.clone(), (text, questions));
        }
        if let Some((text, questions)) = files.get(&one.file)
            && !questions.cover(&one, offset(text, &one)?)
        {
            kept.push(one);
        }
    }
    Ok(kept)
}

/// What the questions of a file leave without effect while the answer is no.
#[derive(Default)]
struct Questions {
    dead: Vec<Bytes>,
    /// Where an arm begins that is never taken.
    arms: Vec<usize>,
    /// Where the condition of an arm begins, and how it always ends.
    guards: Vec<(usize, bool)>,
}

impl Questions {
    fn of(text: &str) -> Result<Self, String> {
        let mut found = Self::default();
        found.visit_file(&syn::parse_file(text).map_err(|error| error.to_string())?);
        Ok(found)
    }

    fn cover(&self, one: &Listed, at: usize) -> bool {
        // A condition may begin where a part of it begins that is never asked.
        let whole = one.genre == Genre::MatchArmGuard;
        self.dead.iter().any(|bytes| bytes.contains(&at) && !(whole && bytes.start == at))
            || match one.genre {
                Genre::MatchArm => self.arms.contains(&at),
                Genre::MatchArmGuard => self.guards.contains(&(at, one.replacement == "true")),
                _ => false,
            }
    }
}

/// Whether an expression calls this function of `mutant`.
fn calls<'a>(expr: &'a syn::Expr, name: &str) -> Option<&'a syn::ExprCall> {
    let syn::Expr::Call(call) = expr else { return None };
    let syn::Expr::Path(path) = &*call.func else { return None };
    let mut names = path.path.segments.iter().rev().map(|segment| &segment.ident);
    let asks = names.next().is_some_and(|last| last == name) && names.next().is_some_and(|of| of == "mutant");
    asks.then_some(call)
}

/// How a condition always ends while no fault is committed, if the questions in it decide that.
fn settled(expr: &syn::Expr) -> Option<bool> {
    match expr {
        syn::Expr::Paren(inner) => settled(&inner.expr),
        syn::Expr::Unary(not) if matches!(not.op, syn::UnOp::Not(_)) => settled(&not.expr).map(|yes| !yes),
        syn::Expr::Binary(binary) => {
            let decides = decides(&binary.op)?;
            match (settled(&binary.left), settled(&binary.right)) {
                (left, right) if left == Some(decides) || right == Some(decides) => Some(decides),
                (Some(_), Some(_)) => Some(!decides),
                _ => None,
            }
        }
        _ => calls(expr, "is").map(|_| false),
    }
}

/// The side that decides alone how `&&` or `||` ends.
fn decides(op: &syn::BinOp) -> Option<bool> {
    match op {
        syn::BinOp::And(_) => Some(false),
        syn::BinOp::Or(_) => Some(true),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Questions {
    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        if let Some(decides) = decides(&node.op) {
            for (one, other) in [(&node.left, &node.right), (&node.right, &node.left)] {
                if settled(one) == Some(decides) {
                    self.dead.push(bytes(other));
                }
            }
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_if(&mut self, node: &'ast syn::ExprIf) {
        match (settled(&node.cond), &node.else_branch) {
            (Some(false), _) => self.dead.push(bytes(&node.then_branch)),
            (Some(true), Some((_, otherwise))) => self.dead.push(bytes(otherwise)),
            _ => {}
        }
        visit::visit_expr_if(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        if let syn::Pat::Guard(guarded) = &node.pat
            && let Some(ends) = settled(&guarded.guard)
        {
            self.guards.push((bytes(&guarded.guard).start, ends));
            if !ends {
                self.arms.push(bytes(node).start);
                self.dead.push(bytes(&node.body));
            }
        }
        visit::visit_arm(self, node);
    }

    fn visit_expr(&mut self, node: &'ast syn::Expr) {
        if let Some(broken) = calls(node, "either").and_then(|call| call.args.get(1)) {
            self.dead.push(bytes(broken));
        }
        visit::visit_expr(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
fn f(a: u8, b: bool) -> u8 {
    if a > 1 && mutant::is("x") { a + 2 } else if b || mutant::is("x") { a - 3 } else {
        match a {
            4 if !crate::mutant::is("x") => mutant::either("x", a * 5, a / 6),
            7 if mutant::is("x") => a % 8,
            8 if a > 3 && mutant::is("x") => a,
            _ if (mutant::is("x") && a < 9) && b => a ^ 1,
            _ if b && !mutant::is("x") => a,
            _ => 0,
        }
    }
}
"#;

    fn covered(genre: &str, replacement: &str, what: &str) -> bool {
        let at = TEXT.find(what).unwrap();
        let json = serde_json::json!({
            "name": what, "file": "a.rs", "genre": genre, "replacement": replacement,
            "span": { "start": { "line": 1, "column": 1 } },
        });
        Questions::of(TEXT).unwrap().cover(&serde_json::from_value(json).unwrap(), at)
    }

    #[test]
    fn what_only_a_fault_runs_is_left_out() {
        for what in ["> 1", "+ 2", "* 5", "% 8", "< 9", "^ 1"] {
            assert!(covered("BinaryOperator", "-", what), "{what}");
        }
        assert!(covered("MatchArmGuard", "true", "!crate::mutant"));
        assert!(covered("MatchArmGuard", "false", "mutant::is(\"x\") => a % 8"));
        assert!(covered("MatchArmGuard", "false", "a > 3"));
        assert!(covered("MatchArm", "", "7 if"));
    }

    #[test]
    fn what_a_sound_store_runs_is_not() {
        for what in ["&& mutant::is(\"x\") {", "|| mutant", "- 3", "/ 6", "&& !mutant"] {
            assert!(!covered("BinaryOperator", "-", what), "{what}");
        }
        assert!(!covered("MatchArmGuard", "false", "!crate::mutant"));
        assert!(!covered("MatchArmGuard", "true", "mutant::is(\"x\") => a % 8"));
        assert!(!covered("MatchArmGuard", "true", "a > 3"));
        assert!(!covered("MatchArm", "", "4 if"));
        assert!(!covered("MatchArmGuard", "false", "b && !mutant"));
    }
}
