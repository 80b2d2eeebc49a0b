//! The command `doctor`: the problems of the masters.

use quorlock::{Diagnosis, Finding, Severity};
use serde_json::{Value, json};

use crate::exit::{Failure, PROBLEM, WARNING};
use crate::options::Doctor;
use crate::tell::print;

/// Prints the findings. The exit code is 2 with a problem, and 1 with a warning.
pub(crate) fn doctor(options: &Doctor) -> Result<u8, Failure> {
    let diagnosis = options.set.diagnosed()?.diagnose()?;
    if options.json {
        print(format_args!("{:#}", as_json(&diagnosis)))?;
    } else {
        print(&diagnosis)?;
    }
    Ok(match diagnosis.severity() {
        Severity::Fine | Severity::Note => 0,
        Severity::Warning => WARNING,
        _ => PROBLEM,
    })
}

fn as_json(diagnosis: &Diagnosis) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "check": finding.check.to_string(),
            "severity": finding.severity.to_string(),
            "value": finding.value,
            "what": finding.what,
        })
    };
    let findings = |all: &[Finding]| all.iter().map(finding).collect::<Vec<_>>();
    let nodes = diagnosis
        .nodes
        .iter()
        .map(|node| json!({ "node": node.node, "findings": findings(&node.findings) }));
    json!({
        "severity": diagnosis.severity().to_string(),
        "nodes": nodes.collect::<Vec<_>>(),
        "set": findings(&diagnosis.set),
    })
}
