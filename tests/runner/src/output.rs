//! The output of a test program, and the results in its closing lines.

/// Maximum of lines that are shown of a failed test's reason.
const REASON_LINES: usize = 12;

/// The printed text, and the results in its closing lines.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) text: String,
    /// The number of tests that passed.
    pub(crate) passed: usize,
    /// The names of the tests that failed.
    pub(crate) failed: Vec<String>,
    results: usize,
    /// Panics that no test has reported: of the library's threads, and of processes that a test has started. A test may
    /// pass in spite of them.
    pub(crate) panics: Vec<String>,
}

impl Output {
    /// Reads the output of a program. With `success`, its exit status was zero.
    pub(crate) fn of(text: String, success: bool) -> Self {
        let results: Vec<_> =
            text.lines().filter(|line| line.starts_with("test result: ")).collect();
        let passed = results.iter().filter_map(|line| passed(line)).sum();
        let panics = panics(&text);
        let failed = if success { Vec::new() } else { failed(&text) };
        let results = results.len();
        Self { text, passed, failed, results, panics }
    }

    /// The reason for a test's failure, as the test printed it. Returns `None` if it printed none.
    pub(crate) fn reason(&self, test: &str) -> Option<String> {
        let (_, told) = self.text.split_once("\nfailures:\n")?;
        let (_, told) = told.split_once(&format!("\n---- {test} stdout ----\n"))?;
        let told = told.lines().take_while(|line| !line.starts_with("---- "));
        let told = told.skip_while(|line| !line.contains(" panicked at "));
        let lines: Vec<_> = told.take_while(|line| !ends_reason(line)).take(REASON_LINES).collect();
        (!lines.is_empty()).then(|| lines.join("\n").trim_end().to_owned())
    }

    /// Returns true if the program reached its closing line.
    pub(crate) fn has_result(&self) -> bool {
        self.results > 0
    }
}

/// Returns true for the line after a panic message.
fn ends_reason(line: &str) -> bool {
    ["stack backtrace:", "note: run with ", "failures:"].iter().any(|it| line.starts_with(it))
}

/// The number in `test result: ok. 12 passed; 0 failed; ..`.
fn passed(line: &str) -> Option<usize> {
    let (before, _) = line.split_once(" passed")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// The names below the last line `failures:`. The `failures:` line before it is followed by the output of these tests.
fn failed(text: &str) -> Vec<String> {
    let Some((_, list)) = text.rsplit_once("\nfailures:\n") else { return Vec::new() };
    let names = list.lines().skip_while(|line| line.is_empty());
    let names = names.map_while(|line| line.strip_prefix("    ")).map(str::to_owned);
    names.collect()
}

/// The first lines of panics. A test's own output comes at the end, below `---- NAME stdout ----`. Only panics of
/// the library's threads count there.
fn panics(text: &str) -> Vec<String> {
    let mut is_told = false;
    let mut panics = Vec::new();
    for line in text.lines() {
        is_told |= line.starts_with("---- ") && line.ends_with(" stdout ----");
        let is_ours = line.starts_with("thread 'quorlock-");
        if line.starts_with("thread '") && line.contains(" panicked at ") && (is_ours || !is_told) {
            panics.push(line.to_owned());
        }
    }
    panics
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: &str = "
running 3 tests
test one ... ok
test two ... FAILED
test part::three ... FAILED

failures:

---- two stdout ----
failures:
    no name

---- part::three stdout ----
printed before

thread 'part::three' (12) panicked at tests/a.rs:1:2:
boom
 and more
stack backtrace:
   0: rust_begin_unwind

failures:
    part::three
    two

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn the_closing_lines_are_read() {
        let output = Output::of(RED.to_owned(), false);
        assert_eq!(output.passed, 1);
        assert_eq!(output.failed, ["part::three", "two"]);
        assert!(output.has_result());
        assert_eq!(output.reason("two"), None);
        let boom = "thread 'part::three' (12) panicked at tests/a.rs:1:2:\nboom\n and more";
        assert_eq!(output.reason("part::three").as_deref(), Some(boom));
    }

    #[test]
    fn a_program_that_was_ended_has_no_result() {
        let output = Output::of("running 3 tests\ntest one ... ok\n".to_owned(), false);
        assert!(!output.has_result());
        assert!(output.failed.is_empty());
    }

    #[test]
    fn panics_that_no_test_tells_of_are_seen() {
        let panic = |thread: &str| format!("\nthread '{thread}' (123) panicked at src/a.rs:1:2:\n");
        let count = |text: String| Output::of(text, true).panics.len();
        let end = "test result: ok. 1 passed; 0 failed\n";
        let [library, other] = ["quorlock-node-0", "<unnamed>"].map(panic);
        assert_eq!(count(library.clone() + end), 1);
        assert_eq!(count(other.clone() + end), 1, "of a process that a test has started");
        let told = "successes:\n\n---- test stdout ----\n";
        assert_eq!(count("failures:\n".to_owned() + &other + end), 1, "it says so itself");
        assert_eq!(count(told.to_owned() + &library + end), 1);
        assert_eq!(count(told.to_owned() + &other + end), 0, "the test passed all the same");
    }

    #[test]
    fn several_results_are_added_up() {
        let one = "test result: ok. 12 passed; 0 failed\n";
        assert_eq!(Output::of(one.repeat(2), true).passed, 24);
    }
}
