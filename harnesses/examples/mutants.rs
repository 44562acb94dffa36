//! Writes the two tables of docs/mutants.md anew:
//! `cargo run -q -p turnkeep-harnesses --features mutants --example mutants`.

use std::path::Path;

use turnkeep_harnesses::mutants;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let file = root.join("docs/mutants.md");
    let mut text = std::fs::read_to_string(&file)?;
    for (mark, table) in mutants::tables(root)? {
        let (begin, end) = (format!("<!-- begin {mark} -->\n"), format!("<!-- end {mark} -->"));
        let found =
            text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
        let Some((before, after)) = found else {
            return Err(std::io::Error::other(format!("docs/mutants.md has no place for {mark}")));
        };
        text = format!("{before}{begin}\n{table}\n{end}{after}");
    }
    std::fs::write(file, text)
}
