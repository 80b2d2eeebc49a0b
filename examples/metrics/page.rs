//! The page that Prometheus scrapes.

#![allow(
    dead_code,
    reason = "compiled into an example and a test, and each uses only a part of it"
)]

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tiny_http::{Response, Server};

use crate::Failure;

/// The ends of the buckets of histograms, in seconds: twice or two and a half times as much from one to the next.
const BUCKETS: [f64; 15] =
    [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0, 60.0];

/// Makes Prometheus' recorder that of this process.
pub(crate) fn install() -> Result<PrometheusHandle, Failure> {
    let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS)?.build_recorder();
    let page = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    Ok(page)
}

/// Answers every request with the page, until the server is unblocked.
pub(crate) fn serve(server: &Server, page: &PrometheusHandle) {
    for request in server.incoming_requests() {
        page.run_upkeep();
        // The client may have gone away.
        let _ = request.respond(Response::from_string(page.render()));
    }
}
