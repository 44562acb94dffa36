//! Assertions that answer instead of panicking, and the macro that defines and registers clauses.

/// Stops the clause unless the condition holds; the text says what was expected and what was seen.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::verdict::Stop::fail(format!($($what)+)));
        }
    };
}

/// Stops the clause unless both are equal. Long values are shown by their beginning.
macro_rules! ensure_eq {
    ($seen:expr, $expected:expr, $($what:tt)+) => {
        match (&$seen, &$expected) {
            (seen, expected) => {
                if *seen != *expected {
                    return Err($crate::verdict::Stop::fail(format!(
                        "{}: expected {}, saw {}",
                        format!($($what)+),
                        $crate::kit::brief(expected),
                        $crate::kit::brief(seen),
                    )));
                }
            }
        }
    };
}

/// Stops the clause unless the answer is an error of this kind; gives the error.
macro_rules! ensure_refused {
    ($answer:expr, $kind:expr, $($what:tt)+) => {
        match $answer {
            Err(error) if error.kind() == $kind => error,
            Err(error) => {
                return Err($crate::verdict::Stop::fail(format!(
                    "{}: expected {}, the store answered: {error}",
                    format!($($what)+),
                    $kind.code(),
                )));
            }
            Ok(_) => {
                return Err($crate::verdict::Stop::fail(format!(
                    "{}: expected {}, the store said yes",
                    format!($($what)+),
                    $kind.code(),
                )));
            }
        }
    };
}

/// Defines and registers the clauses of a group: makes its `CLAUSES`, and a macro of the given name that makes one
/// `#[test]` per clause. The first token is a dollar sign, which a macro cannot write into another one by itself.
///
/// A line is: id, function, fields. The function is named after the id and says the claim; reported cases that the
/// clause covers end the name, `…_case_01_case_02`, and are listed in `cases`.
macro_rules! clauses {
    (($d:tt) $tests:ident; $($id:literal $name:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        /// The clauses of this group.
        pub(crate) const CLAUSES: &[$crate::clause::Clause] = &[$(
            $crate::clause::Clause {
                id: $id,
                name: stringify!($name),
                run: |cx| Box::pin($name(cx)),
                $($field: $value,)*
                ..$crate::clause::Clause::BLANK
            }
        ),*];

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $tests {
            ($d harness:ty) => {$(
                #[test]
                fn $name() {
                    $crate::testing::run::<$d harness>(
                        stringify!($name),
                        concat!(module_path!(), "::", stringify!($name)),
                    );
                }
            )*};
            (@names) => { [$(stringify!($name)),*] };
        }
    };
}
